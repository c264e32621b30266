#!/bin/sh
# A job of four ranks: what the cluster knows of it while it runs, and where its ranks are.
./ask --output json jobs > jobs-meanwhile
./ask --output hostfile job gate --job "slurm-$SLURM_JOB_ID" --hosts 'h[0-3]' --line-per-rank > order
srun --ntasks=4 ./tell > tasks
srun --nodes=1 --ntasks=1 ./tell > tasks-one
