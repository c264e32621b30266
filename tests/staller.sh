#!/usr/bin/env bash
# Runs a command under load: one core is kept busy, and every 30 s all processes of the command get SIGSTOP for 3 s,
# whatever session, namespace or parent they have by then. A correct test does not depend on the clock of such a machine.
#
#     tests/staller.sh .ci/run          # as root, who may stop all of them
#
# The last line counts the stalls. The exit code is the command's.
set -euo pipefail

between_s=27
stall_s=3

# Inherited by all processes of the command, and by none of this script.
mark="REWEAVE_STALLED_BY=$$"

marked() {
    grep --files-with-matches --null-data --line-regexp --fixed-strings "$mark" /proc/[0-9]*/environ 2>/dev/null |
        cut --delimiter=/ --fields=3
}

# Processes that a test has stopped itself stay as they are.
running() {
    local process state
    marked | while read -r process; do
        state=$(sed 's/.*) //' "/proc/$process/stat" 2>/dev/null) || continue
        [[ $state == [TtZ]* ]] || echo "$process"
    done
}

# Two passes: processes may be started during the first.
stall() {
    local stopped=() more
    for _ in 1 2; do
        mapfile -t more < <(running)
        ((${#more[@]})) || continue
        kill -STOP "${more[@]}" 2>/dev/null || true
        stopped+=("${more[@]}")
    done
    sleep "$stall_s" >/dev/null 2>&1
    ((${#stopped[@]} == 0)) || kill -CONT "${stopped[@]}" 2>/dev/null || true
}

count=$(mktemp)
env "$mark" "$@" &
command=$!
(while :; do :; done) &
hog=$!
(while sleep "$between_s" >/dev/null 2>&1; do stall; echo >>"$count"; done) &
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
echo "staller: $(wc -l <"$count") stalls of $stall_s s"
exit "$status"
