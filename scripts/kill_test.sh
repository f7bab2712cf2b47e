#!/bin/sh
# Kills a writing process again and again and checks that nothing acknowledged is lost.
#
#   scripts/kill_test.sh [ROUNDS] [DIR]
#
# Each round starts `unikv crash-writer` on the same database, kills it with SIGKILL after 0.2 to
# 1.5 s and runs `unikv crash-verify`. Memtable and UnsortedStore are small, so that kills meet
# flushes and merges. Ends with the first loss, keeps the directory then, and exits non-zero.
#
# UNIKV names the command (default: target/release/unikv, built if it is not there); KILL_THREADS
# the number of writers (4); KILL_OPTIONS further engine options for writer and verifier.
set -eu

rounds=${1:-30}
root=$(cd "$(dirname "$0")/.." && pwd)
unikv=${UNIKV:-$root/target/release/unikv}
threads=${KILL_THREADS:-4}
options="--memtable-bytes 256KiB --unsorted-bytes 4MiB --key-table-bytes 64KiB ${KILL_OPTIONS:-}"

if [ ! -x "$unikv" ]; then
    (cd "$root" && cargo build --release --quiet -p unikv-cli)
fi

if [ $# -ge 2 ]; then
    work=$2
    keep=yes
    mkdir -p "$work"
else
    work=$(mktemp -d "${TMPDIR:-/tmp}/unikv-kill.XXXXXX")
    keep=no
fi

round=0
writer=
finish() {
    status=$?
    if [ -n "$writer" ]; then
        kill -9 "$writer" 2>/dev/null || true
    fi
    if [ "$status" -ne 0 ]; then
        echo "kill test FAILED in round $round; the evidence is in $work" >&2
    elif [ "$keep" = no ]; then
        rm -rf "$work"
    fi
    exit "$status"
}
trap 'finish' EXIT
trap 'exit 130' INT TERM

while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    # shellcheck disable=SC2086 # The options are words.
    "$unikv" crash-writer "$work/db" --threads "$threads" --ack-file "$work/acks" $options &
    writer=$!
    sleep "$(awk -v seed="$$$round" 'BEGIN { srand(seed); printf "%.2f", 0.2 + 1.3 * rand() }')"
    kill -9 "$writer" 2>/dev/null || true
    ended=0
    wait "$writer" 2>/dev/null || ended=$?
    writer=
    if [ "$ended" -ne 137 ]; then
        echo "the writer ended by itself with status $ended" >&2
        exit 1
    fi
    if [ ! -s "$work/acks" ]; then
        continue # Killed before it began.
    fi
    echo "round $round of $rounds"
    # shellcheck disable=SC2086
    if ! "$unikv" crash-verify "$work/db" --ack-file "$work/acks" $options >"$work/out" 2>&1; then
        cat "$work/out"
        exit 1
    fi
    sed 's/^/  /' "$work/out"
done

"$unikv" check "$work/db"
echo "kill test: $rounds rounds, $threads writers, nothing lost"
