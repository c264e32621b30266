#!/bin/sh
# Epilog: removes the files of task-prolog.sh from a node at the end of the job. Runs on the nodes, as root; asks no
# coordinator.
case "$SLURM_JOB_ID" in
    '' | *[!0-9]*) exit 0 ;;
esac
rm -f "/tmp/reweave-ranks-$SLURM_JOB_ID."??????
exit 0
