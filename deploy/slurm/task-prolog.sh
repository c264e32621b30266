#!/bin/sh
# TaskProlog: its output becomes the environment of a task, and of a batch script with everything that it starts. Runs
# on the nodes, as the user of the job, which needs a viewer's certificate: its path is in the file `environment` beside
# this one, or in the job's own environment. Prints no order if no coordinator answers within 2 s: the job then runs in
# Slurm's order. The reason is in the system log.
set -a
[ ! -r "${0%/*}/environment" ] || . "${0%/*}/environment"
set +a
# NCCL reports collectives to the agent of the node, if the plugin is installed and no other is chosen.
plugin="${REWEAVE_NCCL_PLUGIN-/usr/lib/reweave/libnccl-profiler-reweave.so}"
[ -n "$NCCL_PROFILER_PLUGIN" ] || [ ! -f "$plugin" ] || echo "export NCCL_PROFILER_PLUGIN=$plugin"
# The order is for srun inside of a batch script. Tasks of a step are assigned already, and a user's own hostfile wins.
[ -z "$SLURM_STEP_NODELIST$SLURM_HOSTFILE" ] || exit 0
# Number of tasks on each of several nodes, as in 8(x4). If nodes have unequal numbers, a hostfile could not say which of
# them has fewer; srun would refuse it.
slots=$(expr "$SLURM_TASKS_PER_NODE" : '\([0-9]\{1,\}\)(x[0-9]\{1,\})$') || exit 0
nodes=$(expr "$SLURM_TASKS_PER_NODE" : '[0-9]*(x\([0-9]*\))$') || exit 0
ranks=$((slots * nodes))
[ "${SLURM_NTASKS:-$ranks}" = "$ranks" ] || exit 0
name="slurm-$SLURM_JOB_ID"
# node-epilog.sh removes it.
file=$(mktemp "/tmp/reweave-ranks-$SLURM_JOB_ID.XXXXXX") || exit 0
# The order is used even if the hosts have problems, but not if the list is incomplete.
said=$(timeout 2 reweave --output hostfile job gate --job "$name" --hosts "${SLURM_JOB_NODELIST:-$SLURM_NODELIST}" \
    --slots "$slots" --line-per-rank 2>&1 > "$file")
[ -z "$said" ] || logger -t reweave -p user.warning -- "$name: $said" 2> /dev/null
# A ring can begin anywhere. This one begins with the node of the batch script, which is Slurm's first: scripts use it
# as the rendezvous of the ranks.
ring=$(awk -v first="$SLURMD_NODENAME" '
    { host[NR] = $0 }
    !at && $0 == first { at = NR }
    END { for (nth = 0; nth < NR; nth++) print host[(nth + (at ? at - 1 : 0)) % NR + 1] }' "$file")
printf '%s\n' "$ring" > "$file"
if [ -n "$ring" ] && [ "$(wc -l < "$file")" -eq "$ranks" ]; then
    echo "export SLURM_HOSTFILE=$file"
    [ -n "$MASTER_ADDR" ] || echo "export MASTER_ADDR=$(head -n 1 "$file")"
else
    rm -f "$file"
fi
exit 0
