#!/usr/bin/env bash
# Runs a command on a machine that is as bad as machines get: one processor is kept busy, and every half minute all
# processes of the command, whatever session, namespace or parent they have by then, stand still for three seconds.
# What is right on such a machine does not hang on its clock.
#
#     tests/staller.sh .ci/run          # as root, who may stop all of them
#
# Its last line says how often all stood still. The exit code is the command's.
set -euo pipefail

between_s=27
still_s=3

# The command's processes inherit this, and nothing that is begun here does.
mark="REWEAVE_STALLED_BY=$$"

# Those that run. One that a test itself has stopped is left to that test.
running() {
    local environ state
    grep --files-with-matches --null-data --line-regexp --fixed-strings "$mark" /proc/[0-9]*/environ 2>/dev/null |
        while IFS=/ read -r _ _ process _; do
            state=$(sed 's/.*) //' "/proc/$process/stat" 2>/dev/null) || continue
            [[ $state == [TtZ]* ]] || echo "$process"
        done
}

# Twice, for those that were begun while others were being stopped.
stand_still() {
    local stopped=() more
    for _ in 1 2; do
        mapfile -t more < <(running)
        ((${#more[@]})) || continue
        kill -STOP "${more[@]}" 2>/dev/null || true
        stopped+=("${more[@]}")
    done
    sleep "$still_s"
    ((${#stopped[@]} == 0)) || kill -CONT "${stopped[@]}" 2>/dev/null || true
}

count=$(mktemp)
env "$mark" "$@" &
command=$!
(while :; do :; done) &
hog=$!
(while sleep "$between_s"; do stand_still; echo >>"$count"; done) &
stalls=$!

# Not in the middle of a stall, or the command would stand still for good.
finish() {
    kill "$hog" 2>/dev/null || true
    kill "$stalls" 2>/dev/null || true
    mapfile -t stopped < <(grep --files-with-matches --null-data --line-regexp --fixed-strings "$mark" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3)
    ((${#stopped[@]} == 0)) || kill -CONT "${stopped[@]}" 2>/dev/null || true
    rm -f "$count"
}
trap finish EXIT

status=0
wait "$command" || status=$?
echo "staller: all stood still $(wc -l <"$count") times, for $still_s s each"
exit "$status"
