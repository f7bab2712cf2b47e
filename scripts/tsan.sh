#!/usr/bin/env bash
# Runs the engine's threads under ThreadSanitizer: the stress test (crates/unikv/tests/stress.rs). First a
# race is made on purpose; if it is not reported, the whole run says nothing, and fails.
#
#   scripts/tsan.sh [OPERATIONS]      of each writer of the stress test, 500 unless given
#
# Stable toolchain: RUSTC_BOOTSTRAP lets rustc take the sanitizer, and the standard library stays as it
# is shipped, without instrumentation. What it does between threads is seen where its code is generic or
# inlined, and where it calls pthread functions. The rest is in scripts/tsan.suppressions, each line with
# its reason. A lock that has to wait does so out of line, so in this build the engine's locks try again
# instead (base/sync/locks.rs).
#
# The run is bounded by operations, never by time. Variables: CI and MAY_SKIP (see scripts/skip.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/skip.sh

export UNIKV_STRESS_OPS=${1:-500}
host=$(rustc -vV | sed -n 's/^host: //p')
if ! compgen -G "$(rustc --print sysroot)/lib/rustlib/$host/lib/librustc*_rt.tsan.a" >/dev/null; then
    skip tsan "rustc's thread sanitizer is not here"
fi

export CARGO_TARGET_DIR=$PWD/target/tsan
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="--cfg unikv_tsan -Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer"
export TSAN_OPTIONS="halt_on_error=1 exitcode=66 suppressions=$PWD/scripts/tsan.suppressions"
test=(${CARGO:-cargo} test -p unikv-db --locked --quiet --target "$host")
"${test[@]}" --test stress --no-run

seen=$CARGO_TARGET_DIR/canary.txt
if "${test[@]}" --test stress -- --ignored --exact a_race_is_reported >"$seen" 2>&1 \
    || ! grep -q "WARNING: ThreadSanitizer: data race" "$seen"; then
    cat "$seen"
    echo "tsan: FAILED: the race that was made on purpose is not reported"
    exit 1
fi
echo "tsan: the race that was made on purpose is reported"

"${test[@]}" --test stress
echo "tsan: nothing found"
