#!/usr/bin/env bash
# Does the simulation notice when coordinators agree in a wrong way? Each patch here is one mistake:
# it is made in a copy of the tree, and the simulated coordinators must fail because of it.
#
#     tests/planted/run.sh [NAME...]      # all, or those named
set -euo pipefail

tree=$(git rev-parse --show-toplevel)
cd "$tree"
# A folder of its own: cargo takes one tree for the other where they share one.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$tree/target}/planted
# Enough for each of them; more only takes longer where nothing is wrong.
export REWEAVE_SEEDS=${REWEAVE_SEEDS:-2000}

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

# Compiles with the mistake in it, or there would be nothing to notice.
built() {
    (cd "$copy" && cargo test --locked --quiet --package reweave-tests --test replication --no-run)
}

passes() {
    (cd "$copy" && cargo test --locked --quiet --package reweave-tests --test replication \
        >"$copy/told" 2>&1)
}

unnoticed=()
patches=("$@")
((${#patches[@]})) || mapfile -t patches < <(cd tests/planted && printf '%s\n' *.patch)
git ls-files --cached --others --exclude-standard -z | xargs -0 cp --parents -t "$copy"
for patch in "${patches[@]}"; do
    name=${patch%.patch}
    file=$tree/tests/planted/$name.patch
    patch --quiet --directory "$copy" --strip 1 <"$file"
    built
    if passes; then
        unnoticed+=("$name")
        echo "$name: NOT noticed"
    else
        echo "$name: noticed: $(grep -m1 -A1 'panicked at' "$copy/told" | tail -1 | cut -c1-120)"
    fi
    patch --quiet --directory "$copy" --strip 1 --reverse <"$file"
done
echo "noticed $((${#patches[@]} - ${#unnoticed[@]})) of ${#patches[@]}"
((${#unnoticed[@]} == 0)) || { echo "not noticed: ${unnoticed[*]}" >&2; exit 1; }
