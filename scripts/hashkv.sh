#!/usr/bin/env bash
# HashKV's update-intensive phases (ATC 2018, §4.2 and Experiment 2) at an eighth of their size.
#
# P0 loads BYTES in records of 1 KiB (24-byte keys, 992-byte values and 8 bytes that HashKV counts as
# metadata) into an empty database, in random key order; P1, P2 and P3 each issue as many updates,
# zipf 0.99, as fast as they can. Nothing waits for the background between them, so its debt shows
# in the next phase; at the end everything is settled, read back and compared. The reserve is what
# `max_space_amp` allows beyond the data: 10, 30, 50 and 90 %. The space promise is checked throughout.
#
# What to look at: `ops/s` of p3, `written` (bytes written per byte of user data; HashKV writes 2.84
# at a reserve of 20 %), and `space` (bytes on disk per live byte).
#
# Variables (defaults below): BYTES, AMPS, THREADS, UNSORTED, MEMTABLE, PARTITION, MEMORY_BUDGET, DIR,
# OPTIONS (further options of `unikv ycsb`).
set -euo pipefail
cd "$(dirname "$0")/.."

BYTES=${BYTES:-$((5 << 30))}
AMPS=${AMPS:-1.1 1.3 1.5 1.9}
THREADS=${THREADS:-1}
UNSORTED=${UNSORTED:-256MiB}
MEMTABLE=${MEMTABLE:-16MiB}
PARTITION=${PARTITION:-2GiB}
MEMORY_BUDGET=${MEMORY_BUDGET:-256MiB}
DIR=${DIR:-target/hashkv}
read -ra options <<<"${OPTIONS:-}"

records=$((BYTES / 1024))
cargo build --release --locked -p unikv-cli
mkdir -p "$DIR"
trap 'rm -rf "$DIR/db"' EXIT

echo "commit: $(git describe --always --dirty 2>/dev/null || echo unknown)"
for amp in $AMPS; do
    echo
    echo "== max_space_amp $amp: $records records loaded, 3 x $records updates"
    rm -rf "$DIR/db"
    status=0
    "${CARGO_TARGET_DIR:-target}"/release/unikv ycsb "$DIR/db" \
        --workload p0,p1,p2,p3,settle,verify \
        --records "$records" --value-size 992 --threads "$THREADS" \
        --max-space-amp "$amp" --check-space \
        --unsorted-bytes "$UNSORTED" --memtable-bytes "$MEMTABLE" \
        --partition-bytes "$PARTITION" --memory-budget "$MEMORY_BUDGET" \
        "${options[@]}" || status=$?
    if ((status != 0)); then
        echo "hashkv.sh: FAILED with status $status at max_space_amp $amp" >&2
        failed=1
    fi
done
exit "${failed:-0}"
