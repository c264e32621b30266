#!/usr/bin/env bash
# Runs test programs by cargo, and once more, alone, each test that failed: daemons and kernels keep limits in
# milliseconds here, on machines that others share. What passes then is named, so that it can be mended; what fails
# then, and a program that died, fail. So does a run in which more than three failed.
#
#     deploy/again.sh cargo test --locked --workspace -- --test page --test quorum
set -euo pipefail

cargo=()
while [[ $1 != -- ]]; do
    cargo+=("$1")
    shift
done
shift

said=$(mktemp)
trap 'rm -f "$said"' EXIT
"${cargo[@]}" --no-fail-fast "$@" 2>&1 | tee "$said" && exit 0

# Each as its program and its name; the lists end with the line that counts.
list='/^ +Running / { program = $NF; sub(/.*\//, "", program); sub(/-[0-9a-f]+\)$/, "", program) }
    /^failures:$/ { split("", listed); length_of_list = 0 }
    /^    [^ ]+$/ { listed[++length_of_list] = $1 }
    /^test result: FAILED/ { for (i = 1; i <= length_of_list; i++) print program, listed[i]; length_of_list = 0 }'
mapfile -t failed < <(awk "$list" "$said")
programs=$(printf '%s\n' "${failed[@]% *}" | sort --unique | grep --count . || true)
programs_failed=$(grep --count --extended-regexp '^    `.*--test [^ ]+`$' "$said" || true)
((${#failed[@]} && ${#failed[@]} <= 3 && programs == programs_failed)) || exit 1

for one in "${failed[@]}"; do
    echo "once more: $one"
    "${cargo[@]}" --test "${one% *}" -- --exact "${one#* }"
    echo "passed when run once more: $one"
done
