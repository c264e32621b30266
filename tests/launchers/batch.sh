#!/bin/sh
# A job of four ranks: what the cluster knows of it while it runs, and where its ranks are.
./ask --output json jobs > jobs-meanwhile
./ask --output hostfile job gate --hosts 'h[0-3]' --line-per-rank > order
srun --ntasks=4 sh -c 'echo $SLURM_PROCID $SLURMD_NODENAME $MASTER_ADDR' > tasks
