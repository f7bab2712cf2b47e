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
# LOAD=jobs is the mixed load over few keys, with everything so small that lives of 1 to 4 s meet all
# kinds of job. What the killed processes did is counted by the lifetime figures in the manifests that they
# left, so what opening and verifying did between them does not count. Of ten rounds and more, flushes, merges,
# splits and joins must be among it; a slow machine may take up to three times the rounds for that.
# Collections and scan merges are told only: where merges keep up, collections ride on them, and tables
# are gone before scans have lost enough. (Joins come of long values: a partition that had to be split for them
# shrinks when they are overwritten.) For the other loads the figures are told. Each process of this load
# may have 64 files open, and reaches the database through a symbolic link.
#
# The lives of the processes, and the choices of the mixed load, are drawn from KILL_SEED. What a kill
# meets depends on the machine all the same.
#
# Variables: UNIKV (the command; built when not given), LOAD (writer, mixed or jobs), KILL_SEED (1),
# KILL_THREADS (writers), KILL_KEYS and KILL_SHAPE (of the mixed load), KILL_MS (least and greatest life of a process),
# KILL_OPTIONS (further engine options), DIR (kept afterwards when given).
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-30}
threads=${KILL_THREADS:-4}
load=${LOAD:-writer}
seed=${KILL_SEED:-1}
RANDOM=$seed
jobs=(flushes merges gcs splits joins scan_merges)
case $load in
writer)
    defaults="--memtable-bytes 256KiB --unsorted-bytes 4MiB --key-table-bytes 64KiB"
    read -ra life_ms <<<"${KILL_MS:-200 1500}"
    ;;
mixed)
    defaults="--memtable-bytes 1MiB --unsorted-bytes 8MiB --partition-bytes 32MiB --key-table-bytes 64KiB"
    read -ra life_ms <<<"${KILL_MS:-1000 15000}"
    keys=100k
    ;;
jobs)
    defaults="--memtable-bytes 64KiB --unsorted-bytes 512KiB --partition-bytes 256KiB --key-table-bytes 4KiB"
    defaults+=" --max-space-amp 1.1 --scan-merge-limit 1"
    read -ra life_ms <<<"${KILL_MS:-1000 4000}"
    keys=2k
    ;;
*)
    echo "kill test: LOAD is writer, mixed or jobs" >&2
    exit 2
    ;;
esac
read -ra options <<<"$defaults ${KILL_OPTIONS:-}"

if [[ -z ${UNIKV:-} ]]; then
    cargo build --release --locked --quiet -p unikv-cli
fi
unikv=${UNIKV:-${CARGO_TARGET_DIR:-target}/release/unikv}

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
        echo "kill test: FAILED in round $round of $rounds (KILL_SEED=$seed); the evidence is in $dir" >&2
    elif [[ -z ${DIR:-} ]]; then
        rm -rf "$dir"
    fi
}
trap finish EXIT

if [[ $load == jobs ]]; then
    ulimit -n 64
    mkdir -p "$dir/linked"
    ln -sfn linked "$dir/db"
fi
if [[ $load != writer ]]; then
    mixed=("$unikv" torture "$dir/db" --threads "$threads" --keys "${KILL_KEYS:-$keys}" --shape "${KILL_SHAPE:-usual}"
        --expect "$dir/acks" "${options[@]}")
    write() { exec "${mixed[@]}" --minutes 600 --seed "$1" >"$dir/load.out" 2>&1; }
    verify() { "${mixed[@]}" --minutes 0; }
else
    write() {
        exec "$unikv" crash-writer "$dir/db" --threads "$threads" --ack-file "$dir/acks" "${options[@]}"
    }
    verify() { "$unikv" crash-verify "$dir/db" --ack-file "$dir/acks" "${options[@]}"; }
fi

# How often each of the jobs has been done in the life of the database, by the manifests that are there.
# Opening it would do some. The last of a manifest may be torn.
figures() {
    local manifest
    for manifest in "$dir"/db/MANIFEST-*; do
        "$unikv" inspect "$manifest" 2>/dev/null || true
    done | awk -v jobs="${jobs[*]}" '
        BEGIN { split(jobs, names, " ") }
        / lifetime LifetimeStats / {
            for (n in names) if (match($0, " " names[n] ": [0-9]+")) {
                count = substr($0, RSTART + length(names[n]) + 3, RLENGTH) + 0
                if (count > most[n]) most[n] = count
            }
        }
        END { for (n = 1; n in names; n++) printf "%d ", most[n] }'
}

# Adds to `met` what was done from the figures $1 to the figures $2.
declare -A met
count_jobs() {
    local n before after
    read -ra before <<<"$1"
    read -ra after <<<"$2"
    for n in "${!jobs[@]}"; do
        met[${jobs[n]}]=$((${met[${jobs[n]}]:-0} + after[n] - before[n]))
    done
}

unmet() {
    local job
    for job in flushes merges splits joins; do
        if ((${met[$job]:-0} == 0)); then echo "$job"; fi
    done
}

verified="0 0 0 0 0 0"
most=$rounds
if [[ $load == jobs ]] && ((rounds >= 10)); then most=$((3 * rounds)); fi
while ((round < rounds)) || { ((round < most)) && [[ -n $(unmet) ]]; }; do
    round=$((round + 1))
    write "$RANDOM" &
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
    count_jobs "$verified" "$(figures)"
    if ! verify >"$dir/verify.out" 2>&1; then
        cat "$dir/verify.out"
        exit 1
    fi
    sed 's/^/  /' "$dir/verify.out"
    verified=$(figures)
done

"$unikv" check "$dir/db"
told=
for job in "${jobs[@]}"; do told+=", ${met[$job]:-0} $job"; done
echo "kill test: the killed processes had done ${told#, }"
if ((most > rounds)) && [[ -n $(unmet) ]]; then
    echo "kill test: the load is not what it should be: no" $(unmet) >&2
    exit 1
fi
echo "kill test: $round rounds, $threads writers, nothing acknowledged was lost"
