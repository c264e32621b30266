# Names the stages of a long command while they run. Sourced by recipes of the Makefile:
#
#     source deploy/stage.sh 2                # how many stages will come
#     stage format cargo fmt --all --check    # the first that fails ends the command
#     stage clippy cargo clippy
#     finish
#
# One stage runs at a time: a build beside a test would distort what the test measures.
# shellcheck shell=bash

stages_planned=$1
stages_begun=0
command_began=$SECONDS
flaky=$(mktemp)
said=$(mktemp)
trap 'rm -f "$flaky" "$said"' EXIT

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

# Runs a command, and keeps its FLAKY lines for the end and all that it said in $said.
recorded() {
    local outcome=0
    { "$@" 2>&1 || outcome=$?; } > >(tee "$said")
    wait $!
    grep '^FLAKY ' "$said" >>"$flaky" || true
    return "$outcome"
}

# Runs cargo test with a filter, and fails where the filter matched no test.
#
#     stage frr require_tests cargo test --test kernel frr
require_tests() {
    recorded "$@" || return
    grep --quiet --extended-regexp '^test result: ok\. [1-9]' "$said" || {
        echo "no test ran" >&2
        return 1
    }
}

# Runs a command with its temporary files in memory: a disk that has much to write, such as what a build left behind,
# holds up the logs of coordinators.
in_memory() {
    sync
    if has_room_in_memory; then
        TMPDIR=/dev/shm "$@"
    else
        "$@"
    fi
}

# Containers often have 64 MiB there, and may run no programs from it.
has_room_in_memory() {
    local free_kib probe outcome=0
    free_kib=$(df --output=avail /dev/shm 2>/dev/null | tail -1)
    ((free_kib > 2 << 20)) && probe=$(mktemp /dev/shm/probe.XXXXXX) || return 1
    printf '#!/bin/sh\n' >"$probe" && chmod +x "$probe" && "$probe" 2>/dev/null || outcome=1
    rm -f "$probe"
    return "$outcome"
}

finish() {
    if ((stages_begun != stages_planned)); then
        echo "$stages_planned stages were announced and $stages_begun ran: mend the Makefile" >&2
        exit 1
    fi
    cat "$flaky"
    echo "all stages done in $((SECONDS - command_began)) s"
}
