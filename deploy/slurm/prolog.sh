#!/bin/sh
# PrologSlurmctld: the cluster knows of a job before it begins. Runs on the controller, as SlurmUser, who needs an
# operator's certificate (REWEAVE_IDENTITY in the environment of slurmctld). No job waits for it longer than 2 s, or
# fails with it.
name="slurm-$SLURM_JOB_ID"
list="${SLURM_JOB_NODELIST:-$SLURM_NODELIST}"
timeout 2 reweave job register "$name" --hosts "$list" > /dev/null ||
    echo "reweave: $name runs without being known" >&2
exit 0
