#!/bin/sh
# EpilogSlurmctld: ends a job at the coordinator. Runs on the controller, as prolog.sh does. A job that is missed here
# ends by itself after a time without reports (end_silent_jobs_after_ms).
set -a
[ ! -r "${0%/*}/environment" ] || . "${0%/*}/environment"
set +a
name="slurm-$SLURM_JOB_ID"
timeout 10 reweave job end "$name" > /dev/null ||
    echo "reweave: end of $name was not reported" >&2
exit 0
