#!/usr/bin/env bash
# The measured setting: records of 24-byte keys and 1,000-byte values, 16 MiB memtables, one client
# thread, first with least writing and then as by default. Each run loads
# in random order, waits for the background, updates half as many records (zipf 0.99), waits again,
# reads (zipf 0.99) and scans 50 records at a time. Every value read is verified.
#
# Variables (defaults below): RECORDS, OPERATIONS (updates), READS, SCANS, VALUE_SIZE, MEMTABLE, UNSORTED, DIR,
# CLUSTERINGS, MEMORY (limit of the cgroup that the process and its page cache share; "none" for
# no limit), READ_AHEAD_KB (of the device under DIR; "keep" to leave it alone).
set -euo pipefail
cd "$(dirname "$0")/.."

RECORDS=${RECORDS:-6000000}
OPERATIONS=${OPERATIONS:-$((RECORDS / 2))}
READS=${READS:-$((RECORDS / 20))}
SCANS=${SCANS:-$((RECORDS / 300))}
VALUE_SIZE=${VALUE_SIZE:-1000}
MEMTABLE=${MEMTABLE:-16MiB}
UNSORTED=${UNSORTED:-64MiB}
DIR=${DIR:-target/bench}
CLUSTERINGS=${CLUSTERINGS:-least-writing automatic}
MEMORY=${MEMORY:-1GiB}
READ_AHEAD_KB=${READ_AHEAD_KB:-128}

cargo build --release --locked -p unikv-cli
mkdir -p "$DIR"

source scripts/read_ahead.sh
restore() {
    restore_read_ahead
    rm -rf "$DIR/db"
}
trap restore EXIT
set_read_ahead "$DIR" "$READ_AHEAD_KB"

limited=()
if [[ $MEMORY == none ]]; then
    echo "memory: no limit was asked for"
elif scripts/in_cgroup.sh --probe; then
    limited=(scripts/in_cgroup.sh "$MEMORY")
    echo "memory: a cgroup of $MEMORY, page cache included"
else
    echo "memory: NOT limited; the page cache of the whole machine helps, so the figures of this"
    echo "run do not compare with those of docs/benchmarks/"
fi
echo "machine: $(nproc) cores, $(uname -sr), $(awk -F ': ' '/model name/ {print $2; exit}' /proc/cpuinfo)"
echo "commit: $(git describe --always --dirty 2>/dev/null || echo unknown)"

for clustering in $CLUSTERINGS; do
    echo
    echo "== clustering $clustering: $RECORDS records, $OPERATIONS operations per workload"
    rm -rf "$DIR/db"
    "${limited[@]}" "${CARGO_TARGET_DIR:-target}"/release/unikv ycsb "$DIR/db" \
        --workload "load,settle,scan50@$SCANS,update,settle,c@$READS,scan50@$SCANS" \
        --records "$RECORDS" --operations "$OPERATIONS" \
        --value-size "$VALUE_SIZE" \
        --memtable-bytes "$MEMTABLE" --unsorted-bytes "$UNSORTED" \
        --clustering "$clustering"
done
