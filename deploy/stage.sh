# Names the stages of a long command while they run. Sourced by recipes of the Makefile:
#
#     source deploy/stage.sh 2                # number of stages
#     stage format cargo fmt --all --check    # the first that fails ends the command
#     stage clippy cargo clippy
#     finish
#
# One stage runs at a time: a parallel build would distort the measurements of a test.
# shellcheck shell=bash

stages_planned=$1
stages_begun=0
command_began=$SECONDS
flaky=$(mktemp)
skipped=$(mktemp)
output=$(mktemp)
trap 'cat "$flaky"; rm -f "$flaky" "$skipped" "$output"' EXIT

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

# Runs a command. Its FLAKY lines and skipped tests are listed once more at the end of all stages; its output is in
# $output until the next.
with_summary() {
    local outcome=0 reader
    { "$@" 2>&1 || outcome=$?; } > >(exec tee "$output")
    reader=$!
    # Leftover processes of a test hold the pipe open, and would block the reader of this output.
    timeout 60 tail --pid="$reader" --follow /dev/null || {
        kill "$reader"
        echo "a test left a process behind that holds the output open" >&2
        outcome=1
    }
    grep '^FLAKY ' "$output" >>"$flaky" || true
    sed -nE 's/^test (.+) \.\.\. ignored/\1/p' "$output" >>"$skipped"
    return "$outcome"
}

# Runs cargo test, and fails if its filter matched no test, or one of its programs skipped all tests because
# requirements are missing.
#
#     stage frr require_tests cargo test --test kernel frr
require_tests() {
    with_summary "$@" || return
    grep --quiet --extended-regexp '^test result: ok\. [1-9]' "$output" || {
        echo "no test ran" >&2
        return 1
    }
    ! grep --extended-regexp '^test result: ok\. 0 passed; 0 failed; [1-9][0-9]* ignored' "$output" || {
        echo "a program skipped all of its tests" >&2
        return 1
    }
}

# Runs a command with its temporary files on a tmpfs: writeback after a build delays the fsyncs of coordinators' logs.
with_tmpfs() {
    sync
    if tmpfs_is_usable; then
        TMPDIR=/dev/shm "$@"
    else
        "$@"
    fi
}

# In containers /dev/shm often has 64 MiB, or is mounted noexec.
tmpfs_is_usable() {
    local free_kib probe outcome=0
    free_kib=$(df --output=avail /dev/shm 2>/dev/null | tail -1)
    ((free_kib > 2 << 20)) && probe=$(mktemp /dev/shm/probe.XXXXXX) || return 1
    printf '#!/bin/sh\n' >"$probe" && chmod +x "$probe" && "$probe" 2>/dev/null || outcome=1
    rm -f "$probe"
    return "$outcome"
}

# Under CI, only the listed tests may be skipped.
finish() {
    local may_skip=${1:-} unexpected
    if ((stages_begun != stages_planned)); then
        echo "$stages_planned stages were announced and $stages_begun ran: mend the Makefile" >&2
        exit 1
    fi
    if [[ -s $skipped ]]; then
        echo "skipped:"
        sort -u "$skipped" | sed -E 's/ +/ /g; s/^/  /'
    fi
    if [[ -n $may_skip && ${CI:-} == true ]]; then
        unexpected=$(sed -E 's/[ ,].*//' "$skipped" | sort -u | grep -vxF -f "$may_skip" || true)
        if [[ -n $unexpected ]]; then
            printf 'skipped, and not in %s:\n%s\n' "$may_skip" "$unexpected" >&2
            exit 1
        fi
    fi
    echo "all stages done in $((SECONDS - command_began)) s"
}
