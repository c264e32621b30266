#!/bin/sh
# Epilog: what task-prolog.sh has left on a node goes with its job. Runs on the nodes, as root; asks no coordinator.
case "$SLURM_JOB_ID" in
    '' | *[!0-9]*) exit 0 ;;
esac
rm -f "/tmp/reweave-ranks-$SLURM_JOB_ID."??????
exit 0
