#!/bin/sh
# TaskProlog: what it prints becomes the environment of a task, and of a batch script with all that it starts. Runs on
# the nodes, as whoever runs the job, who needs a viewer's certificate: the file `environment` beside this one, or the
# job's own environment, says where it lies. Prints no order where no coordinator answers within 2 s: the job runs in
# the order that Slurm has for it.
set -a
[ ! -r "${0%/*}/environment" ] || . "${0%/*}/environment"
set +a
# NCCL tells the agent of the node what collectives do, where the plugin for it is installed and no other is chosen.
plugin="${REWEAVE_NCCL_PLUGIN-/usr/lib/reweave/libnccl-profiler-reweave.so}"
[ -n "$NCCL_PROFILER_PLUGIN" ] || [ ! -f "$plugin" ] || echo "export NCCL_PROFILER_PLUGIN=$plugin"
list="${SLURM_JOB_NODELIST:-$SLURM_NODELIST}"
ranks="${SLURM_NTASKS_PER_NODE:-1}"
# What speaks against the hosts is no reason to leave their order out; a list that is not complete is.
file=$(mktemp "${TMPDIR:-/tmp}/reweave-ranks.XXXXXX") || exit 0
timeout 2 reweave --output hostfile job gate --hosts "$list" --slots "$ranks" --line-per-rank \
    > "$file" 2> /dev/null
[ ! -s "$file" ] || echo "export MASTER_ADDR=$(head -n 1 "$file")"
# For srun inside of a batch script: tasks are dealt out in this order.
if [ -s "$file" ] && [ -z "$SLURM_HOSTFILE" ] && [ "${SLURM_PROCID:-0}" = 0 ]; then
    echo "export SLURM_HOSTFILE=$file"
else
    rm -f "$file"
fi
exit 0
