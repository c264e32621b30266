#!/usr/bin/env bash
# Runs a program that builds labs, with sudo if the kernel requires it.
#
# A lab runs in namespaces of its own. Root can always create them, and an ordinary user can unless the
# kernel restricts that (Ubuntu since 23.10: kernel.apparmor_restrict_unprivileged_userns).
# Only the finished program runs as root then, never the compiler. If sudo does not help either,
# the program reports what is missing.
set -euo pipefail

# Environment variables that tests read.
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
