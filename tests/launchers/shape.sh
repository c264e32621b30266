#!/bin/sh
# A job of as many ranks as it was handed in with.
srun ./tell > "tasks-$SLURM_NTASKS"
