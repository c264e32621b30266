#!/bin/sh
# PrologSlurmctld: the cluster knows of a job before it begins. Runs on the controller, as SlurmUser, who needs an
# operator's certificate. Slurm hands it nothing of its own environment: where the coordinator is and where the
# certificate lies stands in the file `environment` beside this one. No job waits for it longer than 2 s, or fails
# with it.
set -a
[ ! -r "${0%/*}/environment" ] || . "${0%/*}/environment"
set +a
name="slurm-$SLURM_JOB_ID"
list="${SLURM_JOB_NODELIST:-$SLURM_NODELIST}"
timeout 2 reweave job register "$name" --hosts "$list" --reorder > /dev/null ||
    echo "reweave: $name is not registered" >&2
exit 0
