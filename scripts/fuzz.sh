#!/usr/bin/env bash
# Builds all fuzz targets once and runs each of them, or those named, from its committed corpus.
#
#   scripts/fuzz.sh [SECONDS] [TARGET…]      10 seconds for each target unless given
#
# A run is bounded by a number of inputs that takes about SECONDS on one core, and starts from a fixed
# seed: the same commit tries the same inputs. (A slow machine stops after three times SECONDS.) As many
# targets run at once as there are cores. What fails a target stays in fuzz/artifacts/, and the command
# that repeats it is printed.
#
# Everything runs on the stable toolchain: RUSTC_BOOTSTRAP lets it take the flags of the sanitizer and
# of the coverage counters, for which rustc ships all that is needed. libFuzzer is built from C++.
#
# Variables: FUZZ_SEED (1), FUZZ_CORPUS (a folder that keeps new inputs for the next run), CI and MAY_SKIP
# (see scripts/skip.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/skip.sh

seconds=${1:-10}
if (($# > 0)); then shift; fi
all=(headers batch edit options codecs wal manifest export key_table record_file directory operations)
if (($# > 0)); then targets=("$@"); else targets=("${all[@]}"); fi

host=$(rustc -vV | sed -n 's/^host: //p')
libraries=$(rustc --print sysroot)/lib/rustlib/$host/lib
command -v c++ >/dev/null || skip fuzz "a C++ compiler is not here"
compgen -G "$libraries/librustc*_rt.asan.a" >/dev/null || skip fuzz "rustc's address sanitizer is not here"

# Inputs that a target takes in a second on one core, about.
rate() {
    case $1 in
    headers | batch | edit | options) echo 5000 ;;
    codecs) echo 2000 ;;
    wal | manifest | export | key_table) echo 400 ;;
    record_file) echo 60 ;;
    directory) echo 18 ;;
    operations) echo 20 ;;
    esac
}

flags="--cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
flags+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
flags+=" -Cllvm-args=-sanitizer-coverage-pc-table"
flags+=" -Cllvm-args=-sanitizer-coverage-trace-compares"
export CARGO_TARGET_DIR=${FUZZ_TARGET_DIR:-$PWD/target/fuzz}
RUSTC_BOOTSTRAP=1 RUSTFLAGS=$flags ${CARGO:-cargo} build --manifest-path fuzz/Cargo.toml \
    --release --quiet --target "$host"
built=$CARGO_TARGET_DIR/$host/release
if [[ ${targets[0]} == build ]]; then exit 0; fi

# Looking for leaks needs ptrace.
if ! "$built/headers" -runs=0 >/dev/null 2>&1; then
    export ASAN_OPTIONS=detect_leaks=0
    echo "fuzz: leaks are not looked for: the leak sanitizer does not run here"
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p fuzz/artifacts

run() {
    local target=$1
    local corpus=${FUZZ_CORPUS:-$scratch}/$target log=fuzz/artifacts/$target.log
    mkdir -p "$corpus"
    local most_bytes=8192 own=(-use_value_profile=1)
    # Its forty operations need no more bytes. They are compared with no magic numbers, and weighing inputs
    # by how rare their features are would take longer than running them.
    if [[ $target == operations ]]; then most_bytes=600 own=(-use_value_profile=0 -entropic=0); fi
    local options=(-seed="${FUZZ_SEED:-1}" -runs=$((seconds * $(rate "$target")))
        -max_total_time=$((3 * seconds)) -max_len=$most_bytes -timeout=120 -rss_limit_mb=2048
        -malloc_limit_mb=64 "${own[@]}" -print_final_stats=1
        -artifact_prefix="fuzz/artifacts/$target-")
    # Short stacks of allocations make a quarter more inputs a second; the repetition shows whole ones.
    local -x ASAN_OPTIONS=${ASAN_OPTIONS:-}:malloc_context_size=2
    if "$built/$target" "${options[@]}" "$corpus" "fuzz/corpus/$target" >"$log" 2>&1; then
        awk -v target="$target" '
            / cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") cov = $(i + 1) }
            /number_of_executed_units/ { runs = $2 }
            /average_exec_per_sec/ { rate = $2 }
            END { printf "fuzz: %-12s %8d inputs, %6d a second, %6d edges\n", target, runs, rate, cov }' "$log"
    else
        tail -n 40 "$log"
        echo "fuzz: $target FAILED; repeat it with"
        echo "  $built/$target fuzz/artifacts/$target-<the file named above>"
        return 1
    fi
}

failed=0
jobs=()
for target in "${targets[@]}"; do
    while (($(jobs -rp | wc -l) >= $(nproc))); do wait -n || failed=1; done
    run "$target" &
done
while (($(jobs -rp | wc -l) > 0)); do wait -n || failed=1; done
if ((failed)); then exit 1; fi
echo "fuzz: ${#targets[@]} targets, nothing failed"
