#!/usr/bin/env bash
# The randomised tests with many more seeds and longer histories than `make test` gives them.
#
# Variables: UNIKV_SEEDS (seeds per test), UNIKV_STEPS (operations per history), KILLS (rounds of
# the kill test). A failure prints its seed; UNIKV_SEED=<seed> with the named test repeats it.
set -euo pipefail
cd "$(dirname "$0")/.."

export UNIKV_SEEDS=${UNIKV_SEEDS:-2000}
export UNIKV_STEPS=${UNIKV_STEPS:-20000}
KILLS=${KILLS:-500}

echo "Soak: $UNIKV_SEEDS seeds of $UNIKV_STEPS steps, then $KILLS kills"
cargo test --workspace --release --locked
scripts/kill_test.sh "$KILLS"
