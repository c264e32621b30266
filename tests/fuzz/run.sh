#!/usr/bin/env bash
# Hands every decoder what a fuzzer thinks of, for some seconds each, beginning with what lies in seeds/.
# What is found is kept in artifacts/fuzz, and named.
#
#     tests/fuzz/run.sh [SECONDS [DECODER...]]
#
# With 0 seconds they are built, and that is all.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
seconds=${1:-5}
shift || true
decoders=("$@")
(($#)) || mapfile -t decoders < <(cd "$here/src/bin" && ls | sed 's/\.rs$//')

host=$(rustc --version --verbose | sed -n 's/^host: //p')
target=${CARGO_TARGET_DIR:-$here/../../target}/fuzz
found=$here/../../artifacts/fuzz
mkdir -p "$found"

# Stable compilers can do this, too: each branch taken is counted, and what was compared is seen.
instruments="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares"
# With --target, what runs while building is built without instruments.
RUSTFLAGS=$(echo $instruments) cargo build --locked --quiet --manifest-path "$here/Cargo.toml" \
    --target "$host" --target-dir "$target" --bins

((seconds)) || exit 0

failed=()
for decoder in "${decoders[@]}"; do
    corpus=$target/corpus/$decoder
    mkdir -p "$corpus" "$here/seeds/$decoder"
    if "$target/$host/debug/$decoder" "$corpus" "$here/seeds/$decoder" -max_total_time="$seconds" \
        -timeout=5 -rss_limit_mb=1024 -max_len=4096 -verbosity=0 -print_final_stats=1 \
        -artifact_prefix="$found/$decoder-" >"$target/$decoder.log" 2>&1; then
        echo "$decoder: $(sed -n 's/^stat::number_of_executed_units: *//p' "$target/$decoder.log") inputs"
    else
        echo "$decoder: failed; its input is in artifacts/fuzz, its words follow"
        grep -m5 -E "panicked|SUMMARY|ERROR" "$target/$decoder.log" || tail -5 "$target/$decoder.log"
        failed+=("$decoder")
    fi
done
((${#failed[@]} == 0))
