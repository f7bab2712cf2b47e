#!/usr/bin/env bash
# Hours of everything that finds more the longer it runs: the randomised tests with many times their
# seeds, the fuzz targets, the model checkers, ThreadSanitizer, kills, and the mixed load.
#
#   scripts/soak.sh [PART…]      simulation fuzz models tsan kills torture; all of them unless given
#
# Optimised, with debug assertions and overflow checks. A failure of a randomised test prints its seed
# and the command that repeats it; the others say where they keep what failed.
#
# Variables: TIMES (10: so many times the seeds of `make test`), FUZZ_SECONDS (300, of each target),
# FUZZ_SEED and KILL_SEED (new each day), FUZZ_CORPUS (kept between runs, target/fuzz-corpus), KILLS (300),
# JOB_KILLS (100) and MIXED_KILLS (40), TORTURE_MINUTES (30), and those of the scripts that are called.
set -euo pipefail
cd "$(dirname "$0")/.."

TIMES=${TIMES:-10}
parts=("$@")
if ((${#parts[@]} == 0)); then parts=(simulation fuzz models tsan kills torture); fi

simulation() {
    UNIKV_TIMES=$TIMES cargo test --workspace --profile soak --locked --no-fail-fast -- --nocapture
}

fuzz() {
    FUZZ_SEED=${FUZZ_SEED:-$(date +%Y%m%d)} FUZZ_CORPUS=${FUZZ_CORPUS:-target/fuzz-corpus} \
        scripts/fuzz.sh "${FUZZ_SECONDS:-300}"
}

models() { UNIKV_SCHEDULES=$TIMES scripts/model_check.sh; }

tsan() { scripts/tsan.sh $((500 * TIMES)); }

kills() {
    export KILL_SEED=${KILL_SEED:-$(date +%Y%m%d)}
    scripts/kill_test.sh "${KILLS:-300}"
    LOAD=jobs scripts/kill_test.sh "${JOB_KILLS:-100}"
    LOAD=mixed scripts/kill_test.sh "${MIXED_KILLS:-40}"
}

torture() {
    local dir
    dir=$(mktemp -d -p target torture.XXXXXX)
    cargo build --release --locked -p unikv-cli
    target/release/unikv torture "$dir/db" --minutes "${TORTURE_MINUTES:-30}" --fresh
    # Some thousand partitions.
    target/release/unikv torture "$dir/db" --minutes "${TORTURE_MINUTES:-30}" --fresh \
        --shape usual --partition-bytes 256k --unsorted-bytes 64k
    rm -rf "$dir"
}

for part in "${parts[@]}"; do
    begun=$SECONDS
    echo "== soak: $part"
    "$part"
    echo "== soak: $part passed, $((SECONDS - begun)) s"
done
