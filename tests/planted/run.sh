#!/usr/bin/env bash
# Do the tests notice when something is done in a wrong way? Each patch here is one mistake, in the folder of the tests
# that must fail because of it, or of what several tests share; it is made in a copy of the tree.
#
#     tests/planted/run.sh [TESTS | TESTS/NAME...]            # all, or those named
#     tests/planted/run.sh --gate [TESTS | TESTS/NAME...]     # with the few seeds that make test plays: 25 must fail
#
# What the few seeds do not notice is tried with many.
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

# The tests of each folder, as arguments of cargo.
declare -A tests=(
    [replication]="--package reweave-tests --test replication"
    [rewiring]="--package reweave-tests --test rewiring"
    [agent]="--package reweave-agent-core --lib"
    [check]="--package reweave-check --lib"
    [link]="--package reweave-link --lib"
    [cli]="--package reweave-cli --bins"
    [coordinator]="--package reweave-coordinator --bins"
    [core]="--package reweave-core --lib"
    [replica]="--package reweave-replica --lib"
    [driver]="--package reweave-driver --lib"
    [proto]="--package reweave-proto --lib"
    [repair]="--package reweave-repair --lib"
    [history]="--package reweave-history --lib"
    [common]="--package reweave-common --lib"
    [kernel]="--package reweave-agent --test kernel"
)

# Of what several rooms share, each mistake must be noticed by the tests of each of these.
declare -A sharers=([files]="link replication history")

# As make test runs them: in the lab only the finished program is root, and measured rates and others' daemons are left to
# make test-lab.
in_lab=(--config "target.'cfg(unix)'.runner = 'deploy/as-lab.sh'")
kernel_tests=(--test-threads 4 --skip rates:: --skip discovery:: --skip drivers:: --skip frr --skip sonic::)

# Enough for each of the simulations; more only takes longer where nothing is wrong.
declare -A many=([replication]=2000 [rewiring]=2100)

# Puts into `cargo_test` how the tests of a folder are run, with these options besides.
find_command() {
    local folder=$1
    shift
    # shellcheck disable=SC2206 # several words
    cargo_test=(cargo test --locked --quiet "$@" ${tests[$folder]})
    [[ $folder != kernel ]] || cargo_test+=("${in_lab[@]}" -- "${kernel_tests[@]}")
}

# Compiles with the mistake in it, or there would be nothing to notice.
built() {
    local cargo_test
    find_command "$1" --no-run
    (cd "$copy" && "${cargo_test[@]}")
}

# How many seconds each test takes without any mistake, by its name and how many seeds it plays.
declare -A usual_s=()

# With few or many seeds. A mistake that keeps anything from ever ending is one, too: that is tried for ten times as long
# as usual.
passes() {
    local play=(timeout "$((60 + 10 * ${usual_s[$1 $2]:-360}))" env)
    [[ $2 == few ]] || play+=("REWEAVE_SEEDS=${many[$1]}")
    local cargo_test
    find_command "$1"
    (cd "$copy" && "${play[@]}" "${cargo_test[@]}" >"$copy/output" 2>&1) || {
        (($? != 124)) || printf "panicked at\nit never ended\n" >>"$copy/output"
        return 1
    }
}

# Where it fails as it is, it would notice anything.
rehearse() {
    [[ -z ${usual_s[$1 $2]:-} ]] || return 0
    local began
    built "$1"
    began=$SECONDS
    passes "$1" "$2" || { echo "$1 fails without any mistake in the tree" >&2; exit 1; }
    usual_s[$1 $2]=$((SECONDS - began))
}

# One that cannot be made, or not compiled, tells nothing, and the others are tried all the same.
planted() {
    local test=${1%%:*} patch=${1#*:} seeds=$2
    local name=${patch%.patch} file=$tree/tests/planted/$patch
    [[ $test == "${patch%%/*}" ]] || name+=" by $test"
    local make=(patch --quiet --fuzz=0 --directory "$copy" --strip 1)
    if ! "${make[@]}" --dry-run <"$file" >"$copy/output" 2>&1; then
        echo "$name: NOT planted: $(head -1 "$copy/output")"
        return 1
    fi
    "${make[@]}" <"$file"
    local noticed=false
    if ! built "$test"; then
        echo "$name: NOT planted: it does not compile"
    elif passes "$test" "$seeds"; then
        echo "$name: NOT noticed with $seeds seeds"
    else
        noticed=true
        echo "$name: noticed with $seeds seeds: $(grep -m1 -A1 'panicked at' "$copy/output" | tail -1 | cut -c1-120)"
        sed -n 's/.*seeds broke a law: \(\[[0-9, ]*\]\).*/    by seeds \1/p' "$copy/output"
    fi
    "${make[@]}" --reverse <"$file"
    $noticed
}

# The tests that must notice a patch, and the patch: one line for each of those tests.
with_tests() {
    local patch test
    for patch; do
        for test in ${sharers[${patch%%/*}]:-${patch%%/*}}; do
            printf '%s:%s\n' "$test" "$patch"
        done
    done
}

mapfile -t all < <(cd tests/planted && with_tests */*.patch)
patches=("${all[@]}")
if (($#)); then
    mapfile -t patches < <(for named; do printf '%s\n' "${all[@]}" | grep -- ":${named%.patch}[/.]"; done)
fi
((${#patches[@]} > 0)) || { echo "no mistake is called $*" >&2; exit 2; }
git ls-files --cached --others --exclude-standard -z | xargs -0 cp --parents --no-dereference -t "$copy"
# The patches that are not noticed, of those that come after the number of seeds.
unnoticed=()
try_with() {
    local seeds=$1 patch
    shift
    unnoticed=()
    for patch; do
        rehearse "${patch%%:*}" "$seeds"
        planted "$patch" "$seeds" || unnoticed+=("$patch")
    done
}

try_with few "${patches[@]}"
few_noticed=$((${#patches[@]} - ${#unnoticed[@]}))
echo "few seeds noticed $few_noticed of ${#patches[@]}"
required=${#patches[@]}
if $is_gate; then
    ((required < ${#all[@]})) || required=25
else
    left=() hopeless=()
    for patch in "${unnoticed[@]}"; do
        if [[ -n ${many[${patch%%:*}]:-} ]]; then left+=("$patch"); else hopeless+=("$patch"); fi
    done
    try_with many "${left[@]}"
    unnoticed+=("${hopeless[@]}")
    echo "few or many noticed $((${#patches[@]} - ${#unnoticed[@]})) of ${#patches[@]}"
fi
((${#unnoticed[@]} == 0)) || echo "not noticed: ${unnoticed[*]%.patch}" >&2
((${#patches[@]} - ${#unnoticed[@]} >= required))
