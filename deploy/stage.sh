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

# Runs cargo test with a filter, and fails where the filter matched no test.
#
#     stage frr require_tests cargo test --test kernel frr
require_tests() {
    local said outcome=0
    said=$(mktemp)
    { "$@" 2>&1 || outcome=$?; } > >(tee "$said")
    wait $!
    if ((outcome == 0)) && ! grep --quiet --extended-regexp '^test result: ok\. [1-9]' "$said"; then
        echo "no test ran" >&2
        outcome=1
    fi
    rm -f "$said"
    return "$outcome"
}

finish() {
    if ((stages_begun != stages_planned)); then
        echo "$stages_planned stages were announced and $stages_begun ran: mend the Makefile" >&2
        exit 1
    fi
    echo "all stages done in $((SECONDS - command_began)) s"
}
