#!/usr/bin/env bash
# Do the tests notice when something is done in a wrong way? Each patch here is one mistake, in the folder of the tests
# that must fail because of it; it is made in a copy of the tree.
#
#     tests/planted/run.sh [TESTS | TESTS/NAME...]            # all, or those named
#     tests/planted/run.sh --gate [TESTS | TESTS/NAME...]     # with the few seeds that make test plays: 25 must fail
set -euo pipefail

is_gate=false
if [[ ${1:-} == --gate ]]; then
    is_gate=true
    shift
fi

tree=$(git rev-parse --show-toplevel)
cd "$tree"
# A folder of its own: cargo takes one tree for the other where they share one.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$tree/target}/planted

# Half of the seeds are drawn from this; the copy has no history.
REWEAVE_COMMIT=${REWEAVE_COMMIT:-$(git rev-parse HEAD)}
export REWEAVE_COMMIT

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

# The tests of each folder, as cargo is told of them.
declare -A tests=(
    [replication]="--package reweave-tests --test replication"
    [rewiring]="--package reweave-tests --test rewiring"
    [agent]="--package reweave-agent-core --lib"
    [check]="--package reweave-check --lib"
    [link]="--package reweave-link --lib"
    [coordinator]="--package reweave-coordinator --bins"
    [core]="--package reweave-core --lib"
    [replica]="--package reweave-replica --lib"
)

# Enough for each of the simulations; more only takes longer where nothing is wrong.
declare -A seeds=([replication]=2000 [rewiring]=2100)

# Compiles with the mistake in it, or there would be nothing to notice.
built() {
    # shellcheck disable=SC2086 # several words
    (cd "$copy" && cargo test --locked --quiet ${tests[$1]} --no-run)
}

# How many seconds each test takes without any mistake.
declare -A usual_s=()

# A mistake that keeps anything from ever ending is one, too: that is tried for ten times as long as usual.
passes() {
    local play=(timeout "$((60 + 10 * ${usual_s[$1]:-360}))" env)
    $is_gate || play+=("REWEAVE_SEEDS=${REWEAVE_SEEDS:-${seeds[$1]:-}}")
    # shellcheck disable=SC2086 # several words
    (cd "$copy" && "${play[@]}" cargo test --locked --quiet ${tests[$1]} >"$copy/told" 2>&1) || {
        (($? != 124)) || printf "panicked at\nit never ended\n" >>"$copy/told"
        return 1
    }
}

# One that cannot be made, or not compiled, tells nothing, and the others are tried all the same.
planted() {
    local name=${1%.patch} test=${1%%/*} file=$tree/tests/planted/$1
    local make=(patch --quiet --fuzz=0 --directory "$copy" --strip 1)
    if ! "${make[@]}" --dry-run <"$file" >"$copy/told" 2>&1; then
        echo "$name: NOT planted: $(head -1 "$copy/told")"
        return 1
    fi
    "${make[@]}" <"$file"
    local noticed=false
    if ! built "$test"; then
        echo "$name: NOT planted: it does not compile"
    elif passes "$test"; then
        echo "$name: NOT noticed"
    else
        noticed=true
        echo "$name: noticed: $(grep -m1 -A1 'panicked at' "$copy/told" | tail -1 | cut -c1-120)"
        sed -n 's/.*seeds broke a law: \(\[[0-9, ]*\]\).*/    by seeds \1/p' "$copy/told"
    fi
    "${make[@]}" --reverse <"$file"
    $noticed
}

mapfile -t all < <(cd tests/planted && printf '%s\n' */*.patch)
patches=("${all[@]}")
if (($#)); then
    mapfile -t patches < <(for named; do printf '%s\n' "${all[@]}" | grep -- "^${named%.patch}[/.]"; done)
fi
((${#patches[@]} > 0)) || { echo "no mistake is called $*" >&2; exit 2; }
git ls-files --cached --others --exclude-standard -z | xargs -0 cp --parents --no-dereference -t "$copy"
# Where it fails as it is, it would notice anything.
for test in $(printf '%s\n' "${patches[@]%%/*}" | sort -u); do
    built "$test"
    began=$SECONDS
    passes "$test" || { echo "$test fails without any mistake in the tree" >&2; exit 1; }
    usual_s[$test]=$((SECONDS - began))
done
# A few seeds notice most mistakes. The others need the many of make soak.
required=${#patches[@]}
if $is_gate && ((required == ${#all[@]})); then
    required=25
fi
unnoticed=()
for patch in "${patches[@]}"; do
    planted "$patch" || unnoticed+=("${patch%.patch}")
done
echo "noticed $((${#patches[@]} - ${#unnoticed[@]})) of ${#patches[@]}"
((${#unnoticed[@]} == 0)) || echo "not noticed: ${unnoticed[*]}" >&2
((${#patches[@]} - ${#unnoticed[@]} >= required))
