#!/usr/bin/env bash
# Tests of the tests: builds the engine so that it can be told to make mistakes (crates/unikv/src/base/seeded/list.rs)
# and shows that for each of them some ordinary test fails. Has a target directory of its own.
#
# Variables: UNIKV_BUG (only the bugs whose names begin so), and those named in
# crates/unikv-sim/tests/seeded_bugs.rs.
set -euo pipefail
cd "$(dirname "$0")/.."

export CARGO_TARGET_DIR="$PWD/target/seeded-bugs"
export RUSTFLAGS="${RUSTFLAGS:-} --cfg unikv_seeded_bugs"
export RUST_BACKTRACE=0
unset UNIKV_SEEDED_BUG UNIKV_TIMES UNIKV_SEEDS UNIKV_STEPS
CARGO=${CARGO:-cargo}

built=$(CARGO_TERM_COLOR=never $CARGO test --locked --no-run -p unikv-db -p unikv-sim --lib --test repair 2>&1) || {
    echo "$built"
    exit 1
}
UNIKV_TESTS=$(sed -n 's/.*Executable.*(\(.*\))$/\1/p' <<<"$built" | xargs realpath | tr '\n' ' ')
export UNIKV_TESTS
$CARGO test --locked -p unikv-sim --test seeded_bugs -- --nocapture
