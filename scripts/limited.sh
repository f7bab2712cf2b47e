#!/usr/bin/env bash
# Runs a step of `make test`, and ends it if it stands still: then it fails, naming the step and what was running.
# The limit is many times what a step takes; it says nothing about speed.
#
#   scripts/limited.sh NAME COMMAND…
#
# Variable: STEP_SECONDS (2400), the limit.
set -uo pipefail

name=$1 limit=${STEP_SECONDS:-2400}
shift
# The command has a process group of its own, so that all that it starts can be listed and ended with it.
set -m
"$@" </dev/null &
group=$!
set +m
trap 'kill -TERM -- "-$group" 2>/dev/null; exit 143' INT TERM
(
    # Without the output of the step, whose reader would wait for this process, too.
    exec >/dev/null
    sleep "$limit" &
    sleeper=$!
    trap 'kill "$sleeper" 2>/dev/null; exit 0' TERM
    wait "$sleeper"
    echo "== $name has not ended within $limit s. It waited for:" >&2
    ps -e -o pgid=,pid=,etimes=,wchan:24=,args= | awk -v group="$group" '$1 == group' | cut -c1-200 >&2
    kill -TERM -- "-$group"
    sleep 10
    kill -KILL -- "-$group" 2>/dev/null
) &
watch=$!
wait "$group"
status=$?
kill "$watch" 2>/dev/null
wait "$watch" 2>/dev/null
exit "$status"
