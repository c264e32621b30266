#!/usr/bin/env bash
# Builds the programs of the release before. As long as none is tagged, that is this tree without what came with this minor
# version, which the patch beside this takes out: such a build reads and says what the files of shapes have for it.
#
#     tests/upgrade/build.sh FOLDER
set -euo pipefail

to=$(realpath -m "${1:?which folder}")
tree=$(git rev-parse --show-toplevel)
cd "$tree"
# Always the same place: cargo would keep what it built in each.
copy=$to/tree
rm -rf "$copy"
mkdir -p "$copy"
git ls-files --cached --others --exclude-standard -z | while IFS= read -r -d '' file; do
    [[ ! -e $file && ! -L $file ]] || cp --parents --no-dereference --preserve=timestamps "$file" "$copy"
done
patch --quiet --fuzz=0 --directory "$copy" --strip 1 <tests/upgrade/without-1.2.patch
mkdir -p "$to"
(cd "$copy" && CARGO_TARGET_DIR=$to/target cargo build --locked --workspace --bins)
for program in reweave reweave-agent reweave-coordinator reweave-driver; do
    cp "$to/target/debug/$program" "$to/"
done
