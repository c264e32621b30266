#!/bin/sh
# PrologSlurmctld: registers a job before it starts. Runs on the controller, as SlurmUser, which needs an operator's
# certificate. Slurm passes no environment to it: the file `environment` beside this one has the address of the
# coordinator and the path of the certificate. A job waits for it for 2 s at most, and never fails because of it.
set -a
[ ! -r "${0%/*}/environment" ] || . "${0%/*}/environment"
set +a
name="slurm-$SLURM_JOB_ID"
list="${SLURM_JOB_NODELIST:-$SLURM_NODELIST}"
timeout 2 reweave job register "$name" --hosts "$list" --reorder > /dev/null ||
    echo "reweave: $name is not registered" >&2
exit 0
