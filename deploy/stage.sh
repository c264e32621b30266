# Names the stages of a long command while they run. Sourced by recipes of the Makefile:
#
#     source deploy/stage.sh 2                # how many stages will come
#     stage format cargo fmt --all --check    # the first that fails ends the command
#     stage clippy cargo clippy
#     finish
#
# What takes long and can be done beside stages that mostly wait, is:
#
#     meanwhile tests/fuzz/run.sh 0           # with what they leave of the machine
#     stage lab cargo test
#     stage fuzz awaited                      # until it has ended, and as it has ended
# shellcheck shell=bash

stages_planned=$1
stages_begun=0
command_began=$SECONDS

stage() {
    local name=$1 began=$SECONDS
    shift
    stages_begun=$((stages_begun + 1))
    local label="[$stages_begun/$stages_planned] $name"
    echo "$label: $*"
    if "$@"; then
        echo "$label: done in $((SECONDS - began)) s"
    else
        echo "$label: FAILED after $((SECONDS - began)) s" >&2
        exit 1
    fi
}

# A session is one group to Linux, and groups share alike: what idles in its own would still have half of a busy machine.
yielding='echo 19 2>/dev/null >/proc/self/autogroup || true; exec chrt --idle 0 "$@"'

meanwhile() {
    meanwhile_said=$(mktemp)
    setsid bash -c "$yielding" meanwhile "$@" >"$meanwhile_said" 2>&1 </dev/null &
    meanwhile_pid=$!
    trap 'kill -- "$meanwhile_pid" -"$meanwhile_pid" 2>/dev/null || true; rm -f "$meanwhile_said"' EXIT
}

awaited() {
    local status=0
    wait "$meanwhile_pid" || status=$?
    cat "$meanwhile_said"
    return "$status"
}

finish() {
    if ((stages_begun != stages_planned)); then
        echo "$stages_planned stages were announced and $stages_begun ran: mend the Makefile" >&2
        exit 1
    fi
    echo "all stages done in $((SECONDS - command_began)) s"
}
