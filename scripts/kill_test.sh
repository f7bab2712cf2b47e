#!/usr/bin/env bash
# Kills a writing process again and again and verifies that nothing it acknowledged is lost.
#
#   scripts/kill_test.sh [ROUNDS]      30 unless given
#
# Each round starts `unikv crash-writer` on the same database, kills it with SIGKILL after 0.2 to
# 1.5 s and runs `unikv crash-verify`. Memtable and UnsortedStore are small, so that kills meet
# flushes and merges. At the first loss it stops, keeps the directory and exits non-zero.
#
# With LOAD=mixed the load is `unikv torture` (batches, deletes, scans, snapshots, values to 1 MiB)
# with a memtable so small that the longest values go to files of their own, and partitions so small
# that kills meet splits and garbage collection, too. Kills come after
# 1 to 15 s; each following run compares the whole database by scans and gets, and reads every byte.
#
# Variables: UNIKV (the command; built when not given), LOAD (writer or mixed), KILL_THREADS
# (writers), KILL_KEYS (of the mixed load), KILL_MS (least and greatest life of a process),
# KILL_OPTIONS (further engine options), DIR (kept afterwards when given).
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-30}
threads=${KILL_THREADS:-4}
load=${LOAD:-writer}
case $load in
writer)
    defaults="--memtable-bytes 256KiB --unsorted-bytes 4MiB --key-table-bytes 64KiB"
    read -ra life_ms <<<"${KILL_MS:-200 1500}"
    ;;
mixed)
    defaults="--memtable-bytes 1MiB --unsorted-bytes 8MiB --partition-bytes 32MiB --key-table-bytes 64KiB"
    read -ra life_ms <<<"${KILL_MS:-1000 15000}"
    ;;
*)
    echo "kill test: LOAD is writer or mixed" >&2
    exit 2
    ;;
esac
read -ra options <<<"$defaults ${KILL_OPTIONS:-}"

if [[ -z ${UNIKV:-} ]]; then
    cargo build --release --locked --quiet -p unikv-cli
fi
unikv=${UNIKV:-target/release/unikv}

if [[ -n ${DIR:-} ]]; then
    dir=$DIR
    mkdir -p "$dir"
else
    mkdir -p target
    dir=$(mktemp -d target/kill.XXXXXX)
fi

round=0
writer=
finish() {
    local status=$?
    if [[ -n $writer ]]; then
        kill -9 "$writer" 2>/dev/null || true
    fi
    if ((status != 0)); then
        echo "kill test: FAILED in round $round of $rounds; the evidence is in $dir" >&2
    elif [[ -z ${DIR:-} ]]; then
        rm -rf "$dir"
    fi
}
trap finish EXIT

if [[ $load == mixed ]]; then
    mixed=("$unikv" torture "$dir/db" --threads "$threads" --keys "${KILL_KEYS:-100k}"
        --expect "$dir/acks" "${options[@]}")
    write() { exec "${mixed[@]}" --minutes 600 --seed "$RANDOM" >"$dir/load.out" 2>&1; }
    verify() { "${mixed[@]}" --minutes 0; }
else
    write() {
        exec "$unikv" crash-writer "$dir/db" --threads "$threads" --ack-file "$dir/acks" "${options[@]}"
    }
    verify() { "$unikv" crash-verify "$dir/db" --ack-file "$dir/acks" "${options[@]}"; }
fi

while ((round < rounds)); do
    round=$((round + 1))
    write &
    writer=$!
    after_ms=$((life_ms[0] + RANDOM % (life_ms[1] - life_ms[0])))
    sleep "$((after_ms / 1000)).$(printf %03d $((after_ms % 1000)))"
    kill -9 "$writer" 2>/dev/null || true
    ended=0
    # The shell's own notice of the kill would only alarm.
    wait "$writer" 2>/dev/null || ended=$?
    writer=
    if ((ended != 137)); then
        echo "kill test: the writer ended by itself with status $ended" >&2
        if [[ -f $dir/load.out ]]; then tail -n 3 "$dir/load.out" >&2; fi
        exit 1
    fi
    if [[ ! -s $dir/acks ]]; then
        continue # Killed before it began.
    fi
    echo "round $round of $rounds: killed after $after_ms ms"
    if ! verify >"$dir/verify.out" 2>&1; then
        cat "$dir/verify.out"
        exit 1
    fi
    sed 's/^/  /' "$dir/verify.out"
done

"$unikv" check "$dir/db"
echo "kill test: $rounds rounds, $threads writers, nothing acknowledged was lost"
