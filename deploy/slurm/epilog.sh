#!/bin/sh
# EpilogSlurmctld: what was held for a job is let go. Runs on the controller, as prolog.sh does. A job that is missed
# here ends by itself once nothing is heard of it (end_silent_jobs_after_ms).
set -a
[ ! -r "${0%/*}/environment" ] || . "${0%/*}/environment"
set +a
name="slurm-$SLURM_JOB_ID"
timeout 10 reweave job end "$name" > /dev/null ||
    echo "reweave: end of $name was not reported" >&2
exit 0
