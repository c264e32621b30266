#!/usr/bin/env bash
# Runs a program that builds labs, by sudo where the kernel leaves no other way.
#
# A lab lives in namespaces of its own. Root may always make them, an ordinary user may unless the
# kernel takes their powers away (Ubuntu since 23.10: kernel.apparmor_restrict_unprivileged_userns).
# Only the finished program runs as root then, never the compiler. Where sudo cannot help either,
# the program itself says what is missing.
set -euo pipefail

# Of the environment, what tests read.
kept=CI,CARGO_MANIFEST_DIR,RUST_BACKTRACE,RUST_TEST_THREADS,TMPDIR
for variable in "${!REWEAVE_@}"; do kept+=,$variable; done

may_make_namespaces() {
    unshare --user --map-root-user --net --mount ip link set lo up 2>/dev/null
}

may_use_sudo() {
    command -v sudo >/dev/null && { [[ -t 0 ]] || sudo --non-interactive true 2>/dev/null; }
}

if ((EUID != 0)) && ! may_make_namespaces && may_use_sudo; then
    echo "this kernel keeps namespaces from ordinary users: running ${1##*/} by sudo" >&2
    exec sudo --preserve-env="$kept" -- "$@"
fi
exec "$@"
