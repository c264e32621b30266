#!/usr/bin/env bash
# Runs a command under load: one core is kept busy, and every 30 s all processes of the command get SIGSTOP for 3 s,
# with any session, namespace or parent by then. A correct test does not depend on the clock of such a machine.
#
#     tests/staller.sh .ci/run          # as root, who may stop all of them
#
# The last line counts the stalls. The exit code is the command's, or 1 if there was no stall.
set -euo pipefail

between_s=27
stall_s=3

# Inherited by all processes of the command, and by none of this script.
mark="REWEAVE_STALLED_BY=$$"

marked() {
    grep --files-with-matches --null-data --line-regexp --fixed-strings "$mark" /proc/[0-9]*/environ 2>/dev/null |
        cut --delimiter=/ --fields=3
}

# Stops all processes of the command that are not stopped already, and lists them: what a test has stopped itself is not
# continued with the others.
stop_running() {
    local process stat
    marked | while read -r process; do
        { read -r stat <"/proc/$process/stat"; } 2>/dev/null || continue
        [[ ${stat##*) } != [TtZ]* ]] && kill -STOP "$process" 2>/dev/null && echo "$process"
    done || true
}

# Two passes: processes may be started during the first.
stall() {
    local stopped=() more
    for _ in 1 2; do
        mapfile -t more < <(stop_running)
        stopped+=("${more[@]}")
    done
    sleep "$stall_s" >/dev/null 2>&1
    ((${#stopped[@]})) || return 0
    kill -CONT "${stopped[@]}" 2>/dev/null || true
    echo >>"$count"
}

count=$(mktemp)
env "$mark" "$@" &
command=$!
(while :; do :; done) &
hog=$!
(while sleep "$between_s" >/dev/null 2>&1; do stall; done) &
stalls=$!

# This script may end during a stall.
finish() {
    kill "$hog" "$stalls" 2>/dev/null || true
    mapfile -t left < <(marked)
    ((${#left[@]} == 0)) || kill -CONT "${left[@]}" 2>/dev/null || true
    rm -f "$count"
}
trap finish EXIT

status=0
wait "$command" || status=$?
stalls_made=$(wc -l <"$count")
echo "staller: $stalls_made stalls of $stall_s s"
((stalls_made > 0 || status)) || status=1
exit "$status"
