#!/usr/bin/env bash
# The whole engine at work: a load in random order that splits partitions, zipf updates, a tenth
# deleted, YCSB A to F, a reopening, and every key compared with an oracle. The space promise is
# checked every 100 ms.
#
# Variables (defaults below): RECORDS, UPDATES, DELETES, OPERATIONS (of each of A to F), SCANS (of
# E), VALUE_SIZE, THREADS, PARTITION, UNSORTED, MEMTABLE, MEMORY_BUDGET, DIR, TRACE (a CSV file with
# one line per second), OPTIONS (further options of `unikv ycsb`).
set -euo pipefail
cd "$(dirname "$0")/.."

RECORDS=${RECORDS:-6000000}
UPDATES=${UPDATES:-$RECORDS}
DELETES=${DELETES:-$((RECORDS / 10))}
OPERATIONS=${OPERATIONS:-$((RECORDS / 20))}
SCANS=${SCANS:-$((OPERATIONS / 10))}
VALUE_SIZE=${VALUE_SIZE:-1000}
THREADS=${THREADS:-1}
PARTITION=${PARTITION:-2GiB}
UNSORTED=${UNSORTED:-256MiB}
MEMTABLE=${MEMTABLE:-16MiB}
MEMORY_BUDGET=${MEMORY_BUDGET:-256MiB}
DIR=${DIR:-target/whole}
read -ra options <<<"${OPTIONS:-}"
if [[ -n ${TRACE:-} ]]; then options+=(--trace "$TRACE"); fi

cargo build --release --locked -p unikv-cli
mkdir -p "$DIR"
trap 'rm -rf "$DIR/db"' EXIT
rm -rf "$DIR/db"

echo "commit: $(git describe --always --dirty 2>/dev/null || echo unknown)"
"${CARGO_TARGET_DIR:-target}"/release/unikv ycsb "$DIR/db" \
    --workload "load,settle,update@$UPDATES,settle,delete@$DELETES,a,b,c,d,e@$SCANS,f,settle,reopen,verify" \
    --records "$RECORDS" --operations "$OPERATIONS" --value-size "$VALUE_SIZE" \
    --threads "$THREADS" --check-space \
    --partition-bytes "$PARTITION" --unsorted-bytes "$UNSORTED" \
    --memtable-bytes "$MEMTABLE" --memory-budget "$MEMORY_BUDGET" \
    "${options[@]}"
"${CARGO_TARGET_DIR:-target}"/release/unikv check "$DIR/db"
