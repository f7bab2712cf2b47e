#!/usr/bin/env bash
# Kills a writing process again and again and verifies that nothing it acknowledged is lost.
#
#   scripts/kill_test.sh [ROUNDS]      30 unless given
#
# Each round starts `unikv crash-writer` on the same database, kills it with SIGKILL after 0.2 to
# 1.5 s and runs `unikv crash-verify`. Memtable and UnsortedStore are small, so that kills meet
# flushes and merges. At the first loss it stops, keeps the directory and exits non-zero.
#
# Variables: UNIKV (the command; built when not given), KILL_THREADS (writers), KILL_OPTIONS
# (further engine options), DIR (kept afterwards when given).
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-30}
threads=${KILL_THREADS:-4}
read -ra options <<<"--memtable-bytes 256KiB --unsorted-bytes 4MiB --key-table-bytes 64KiB ${KILL_OPTIONS:-}"

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

while ((round < rounds)); do
    round=$((round + 1))
    "$unikv" crash-writer "$dir/db" --threads "$threads" --ack-file "$dir/acks" "${options[@]}" &
    writer=$!
    after_ms=$((200 + RANDOM % 1300))
    sleep "$((after_ms / 1000)).$(printf %03d $((after_ms % 1000)))"
    kill -9 "$writer" 2>/dev/null || true
    ended=0
    # The shell's own notice of the kill would only alarm.
    wait "$writer" 2>/dev/null || ended=$?
    writer=
    if ((ended != 137)); then
        echo "kill test: the writer ended by itself with status $ended" >&2
        exit 1
    fi
    if [[ ! -s $dir/acks ]]; then
        continue # Killed before it began.
    fi
    echo "round $round of $rounds: killed after $after_ms ms"
    if ! "$unikv" crash-verify "$dir/db" --ack-file "$dir/acks" "${options[@]}" \
        >"$dir/verify.out" 2>&1; then
        cat "$dir/verify.out"
        exit 1
    fi
    sed 's/^/  /' "$dir/verify.out"
done

"$unikv" check "$dir/db"
echo "kill test: $rounds rounds, $threads writers, nothing acknowledged was lost"
