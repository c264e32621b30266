#!/usr/bin/env bash
# Builds the Debian packages: `make packages` calls this.
#
#     deploy/packages/build.sh FOLDER      cargo builds in FOLDER; the packages are in FOLDER/debian
#
# Builds are reproducible: times are those of the commit, and folder names of this machine are left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

folder=$(realpath -m "$1")
built=$folder/dist
made=$built/packaged
parts=(cli agent coordinator driver)
built_together=(reweave-nccl "${parts[@]/#/reweave-}")
tool=${CARGO_DEB:-cargo-deb}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
# The last matching entry wins: the build folder may be inside the tree.
RUSTFLAGS="--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo --remap-path-prefix=$PWD=/reweave"
RUSTFLAGS+=" --remap-path-prefix=$folder=/built"
# `reweave version` prints it.
REWEAVE_BUILD_COMMIT=${REWEAVE_BUILD_COMMIT:-$(git rev-parse HEAD)}
export SOURCE_DATE_EPOCH RUSTFLAGS REWEAVE_BUILD_COMMIT

# Maximum size of each program in MiB; a maintainer decides on more.
budgets() {
    cat <<'END'
reweave-agent                10
reweave-driver               10
reweave-coordinator          24
reweave                      20
libnccl_profiler_reweave.so  1
END
}

compile() {
    cargo build --locked --profile dist --target-dir "$folder" "${built_together[@]/#/--package=}"
}

within_budget() {
    local program most_mib bytes status=0
    while read -r program most_mib; do
        bytes=$(stat --format=%s "$built/$program")
        echo "$program: $bytes bytes, at most $most_mib MiB"
        ((bytes <= most_mib << 20)) || { echo "$program is too large" >&2 && status=1; }
    done < <(budgets)
    return $status
}

write_manual() {
    rm -rf "$made" && mkdir -p "$made/completions"
    "$built/reweave" man --into "$made/reweave"
    for program in reweave-agent reweave-coordinator reweave-driver; do
        "$built/$program" man --into "$made/$program"
    done
    "$built/reweave" completions bash >"$made/completions/reweave.bash"
    "$built/reweave" completions zsh >"$made/completions/_reweave"
    "$built/reweave" completions fish >"$made/completions/reweave.fish"
}

write_changelog() {
    printf 'reweave (%s-1) unstable; urgency=medium\n\n  * Release %s.\n\n -- %s  %s\n' "$version" "$version" \
        "The Reweave Authors <maintainers@reweave.example>" "$(date --utc -R -d "@$SOURCE_DATE_EPOCH")" \
        >"$made/changelog.Debian"
}

# Third-party code in the programs, which Debian's copyright file leaves out.
write_third_party() {
    local part also
    mkdir "$made/third-party"
    for part in "${parts[@]}"; do
        also=$([[ $part != agent ]] || echo reweave-nccl)
        # shellcheck disable=SC2086 # nothing, or one word
        deploy/packages/third-party.py "${built_together[@]}" -- "reweave-$part" $also \
            >"$made/third-party/reweave-$part"
    done
}

pack() {
    rm -rf "$folder/debian"
    for part in "${parts[@]}"; do
        CARGO_TARGET_DIR=$folder "$tool" --locked --no-build --no-strip --no-dbgsym --profile dist --quiet \
            --package "reweave-$part" --output "$folder/debian/"
    done
}

compile
within_budget
write_manual
write_changelog
write_third_party
gzip --best --no-name "$made"/*/*.1 "$made"/third-party/* "$made/changelog.Debian"
pack
(cd "$folder/debian" && sha256sum -- *.deb)
