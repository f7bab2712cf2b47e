#!/usr/bin/env bash
# The benchmark suite: runs experiments over engines, each in a process and a memory cgroup of its own,
# and writes results.json and report.html. docs/benchmarks/README.md tells what they mean.
#
# Variables (defaults below): SCALE, EXPERIMENTS, RUNS, ENGINES, LONGEST_PHASE, ROUNDS, DIR, OUT, MOST_DISK,
# READ_AHEAD_KB,
# PEERS (1: with the engines of crates/unikv-bench-peers, of which LevelDB needs libleveldb-dev, RocksDB a C++
# compiler, libclang-dev and half an hour, Pebble and BadgerDB Go), FEATURES (of that crate, to leave some out).
set -euo pipefail
cd "$(dirname "$0")/.."

SCALE=${SCALE:-0.0001}
DIR=${DIR:-target/suite}
OUT=${OUT:-$DIR/results}
READ_AHEAD_KB=${READ_AHEAD_KB:-128}

if [[ ${PEERS:-} == 1 ]]; then
    # Not --locked: what UniKV itself depends on may have changed since that lock file was written.
    build=(cargo build --release --target-dir target/peers
        --manifest-path crates/unikv-bench-peers/Cargo.toml)
    if [[ -n ${FEATURES:-} ]]; then build+=(--no-default-features --features "$FEATURES"); fi
    program=target/peers/release/unikv-bench-peers
else
    build=(cargo build --release --locked -p unikv-bench)
    program=${CARGO_TARGET_DIR:-target}/release/unikv-bench
fi
"${build[@]}"
mkdir -p "$DIR"

source scripts/read_ahead.sh
trap restore_read_ahead EXIT
set_read_ahead "$DIR" "$READ_AHEAD_KB"

options=(--scale "$SCALE" --dir "$DIR" --out "$OUT" --limiter scripts/in_cgroup.sh)
if [[ -n ${EXPERIMENTS:-} ]]; then options+=(--experiments "$EXPERIMENTS"); fi
if [[ -n ${RUNS:-} ]]; then options+=(--runs "$RUNS"); fi
if [[ -n ${ENGINES:-} ]]; then options+=(--engines "$ENGINES"); fi
if [[ -n ${LONGEST_PHASE:-} ]]; then options+=(--longest-phase "$LONGEST_PHASE"); fi
if [[ -n ${ROUNDS:-} ]]; then options+=(--rounds "$ROUNDS"); fi
if [[ -n ${MOST_DISK:-} ]]; then options+=(--most-disk "$MOST_DISK"); fi
if commit=$(git describe --always --dirty 2>/dev/null); then options+=(--commit "$commit"); fi
"$program" run "${options[@]}"
