#!/usr/bin/env bash
# Shows the engine at work: builds it, fills a database under target/, runs the YCSB workloads
# over it, reopens it, verifies every value, checks every file, and removes it again.
#
# Variables: RECORDS, OPERATIONS (per workload), SCANS (operations of workload e), DIR (kept afterwards when given).
set -euo pipefail
cd "$(dirname "$0")/.."

RECORDS=${RECORDS:-1000000}
OPERATIONS=${OPERATIONS:-200000}
# A scan reads fifty records on average.
SCANS=${SCANS:-$((OPERATIONS / 4))}

echo "Building unikv (release) ..."
cargo build --release --locked -p unikv-cli

if [[ -n ${DIR:-} ]]; then
    dir=$DIR
else
    mkdir -p target
    scratch=$(mktemp -d target/run.XXXXXX)
    trap 'rm -rf "$scratch"' EXIT
    dir=$scratch/db
fi

free_kb=$(df --output=avail -k "$(dirname "$dir")" | tail -n 1)
if ((free_kb < 4 * 1024 * 1024)); then
    echo "run.sh: less than 4 GiB free beside $dir; free some space or set DIR" >&2
    exit 1
fi

cat <<END

A database in $dir
  load     writes $RECORDS records of 1,000-byte values. The memtable holds 16 MiB, so it is
           flushed some 60 times; the UnsortedStore holds 256 MiB, so merges move its keys to
           the SortedStore about every 16th flush.
  a to f   are the six YCSB workloads, $OPERATIONS operations each, $SCANS in e: reads and updates (a, b),
           reads (c), reads of the latest (d), scans (e), read-modify-write (f).
  reopen   closes the database and opens it again; verify reads every record back and compares.

END
"${CARGO_TARGET_DIR:-target}"/release/unikv ycsb "$dir" \
    --workload load,a,b,c,d,e@"$SCANS",f,reopen,verify \
    --records "$RECORDS" --operations "$OPERATIONS" --value-size 1000 \
    --memtable-bytes 16MiB --unsorted-bytes 256MiB

echo
echo "Checking every file of the database: headers, checksums, order, pointers ..."
"${CARGO_TARGET_DIR:-target}"/release/unikv check "$dir"
