#!/bin/sh
# TaskProlog: what it prints becomes the environment of a task, and of a batch script with all that it starts. Runs on
# the nodes, as the user of the job, who needs a viewer's certificate: the file `environment` beside this one, or the
# job's own environment, says where it lies. Prints no order where no coordinator answers within 2 s: the job runs in
# the order that Slurm has for it. The reason goes to the system's log.
set -a
[ ! -r "${0%/*}/environment" ] || . "${0%/*}/environment"
set +a
# NCCL tells the agent of the node what collectives do, where the plugin for it is installed and no other is chosen.
plugin="${REWEAVE_NCCL_PLUGIN-/usr/lib/reweave/libnccl-profiler-reweave.so}"
[ -n "$NCCL_PROFILER_PLUGIN" ] || [ ! -f "$plugin" ] || echo "export NCCL_PROFILER_PLUGIN=$plugin"
# An order is for srun inside of a batch script. Tasks of a step are dealt out already, and a user who has set a file of
# hosts has an order of their own.
[ -z "$SLURM_STEP_NODELIST$SLURM_HOSTFILE" ] || exit 0
# This many tasks on each of several nodes, as in 8(x4). Where nodes take unequal numbers, a file of hosts could not say
# which of them has fewer; srun would refuse it.
slots=$(expr "$SLURM_TASKS_PER_NODE" : '\([0-9]\{1,\}\)(x[0-9]\{1,\})$') || exit 0
nodes=$(expr "$SLURM_TASKS_PER_NODE" : '[0-9]*(x\([0-9]*\))$') || exit 0
ranks=$((slots * nodes))
[ "${SLURM_NTASKS:-$ranks}" = "$ranks" ] || exit 0
name="slurm-$SLURM_JOB_ID"
# node-epilog.sh takes it away.
file=$(mktemp "/tmp/reweave-ranks-$SLURM_JOB_ID.XXXXXX") || exit 0
# What speaks against the hosts is no reason to leave their order out; a list that is not complete is.
said=$(timeout 2 reweave --output hostfile job gate --job "$name" --hosts "${SLURM_JOB_NODELIST:-$SLURM_NODELIST}" \
    --slots "$slots" --line-per-rank 2>&1 > "$file")
[ -z "$said" ] || logger -t reweave -p user.warning -- "$name: $said" 2> /dev/null
# A ring may begin anywhere. This one begins with the node of the batch script, which is Slurm's first: there scripts
# let ranks meet.
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
