#!/usr/bin/env bash
# Line coverage of the engine (crates/unikv/src) by its own tests and those of unikv-sim, as `make test`
# runs them. Reports each folder, all of the engine, and what reads formats and recovers; then the lines
# of these that no test runs. Takes half an hour on two cores.
#
# The counters are rustc's own (-C instrument-coverage, stable). Reading them needs llvm-profdata and
# llvm-cov of the LLVM that rustc was built with: from the component llvm-tools, or from a package of the
# system of the same major version.
#
# Test code does not count: files named tests.rs, src/testing/, and what follows `#[cfg(test)]` in a
# file. scripts/coverage_exceptions.txt lists lines that no test can or need reach, each with its reason.
set -euo pipefail
cd "$(dirname "$0")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
llvm=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
tool() {
    local shipped
    shipped=$(rustc --print sysroot)/lib/rustlib/$host/bin/$1
    if [[ -x $shipped ]]; then
        echo "$shipped"
    else
        command -v "$1-$llvm" || true
    fi
}
profdata=$(tool llvm-profdata)
cov=$(tool llvm-cov)
if [[ -z $profdata || -z $cov ]]; then
    echo "coverage: skipped: llvm-profdata and llvm-cov of LLVM $llvm are not here" >&2
    echo "  (rustup component add llvm-tools, or the package llvm-$llvm)" >&2
    exit 1
fi

unset UNIKV_TIMES UNIKV_SEEDS UNIKV_STEPS
export CARGO_TARGET_DIR=$PWD/target/coverage
export RUSTFLAGS="-Cinstrument-coverage"
raw=$CARGO_TARGET_DIR/raw
rm -rf "$raw"
mkdir -p "$raw"
export LLVM_PROFILE_FILE="$raw/%p-%4m.profraw"

tests=(-p unikv-db -p unikv-sim --locked --lib --tests)
${CARGO:-cargo} test "${tests[@]}" --quiet >"$CARGO_TARGET_DIR/tests.txt" 2>&1 || {
    tail -n 40 "$CARGO_TARGET_DIR/tests.txt"
    echo "coverage: a test failed"
    exit 1
}
binaries=$(${CARGO:-cargo} test "${tests[@]}" --no-run --message-format=json 2>/dev/null \
    | grep -o '"executable":"[^"]*"' | cut -d'"' -f4)
"$profdata" merge -sparse "$raw"/*.profraw -o "$CARGO_TARGET_DIR/all.profdata"
objects=()
for binary in $binaries; do objects+=(-object "$binary"); done
"$cov" export -format=lcov -instr-profile="$CARGO_TARGET_DIR/all.profdata" "${objects[@]}" \
    >"$CARGO_TARGET_DIR/lcov.txt"
awk -v root="$PWD/crates/unikv/src/" -f scripts/coverage.awk scripts/coverage_exceptions.txt \
    "$CARGO_TARGET_DIR/lcov.txt"
