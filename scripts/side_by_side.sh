#!/usr/bin/env bash
# Runs make targets that need nothing of one another side by side, and prints what each of them said when
# it has ended, those that failed once more at the end.
#
#   scripts/side_by_side.sh TARGET…
#
# Variables: JOBS (2: so many at a time), MAKE.
set -euo pipefail
cd "$(dirname "$0")/.."

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export logs MAKE=${MAKE:-make}

run() {
    local status=0 took TIMEFORMAT='%0R s, with %0U s of processor time'
    took=$({ time scripts/limited.sh "$1" "$MAKE" --no-print-directory "$1" >"$logs/$1" 2>&1; } 2>&1) || status=$?
    if ((status != 0)); then touch "$logs/$1.failed"; fi
    echo "== $1: exit $status after $took" >>"$logs/$1"
    flock "$logs" cat "$logs/$1"
    return "$status"
}
export -f run

if printf '%s\n' "$@" | xargs -P "${JOBS:-2}" -I{} bash -c 'run {}'; then exit 0; fi
for failed in "$logs"/*.failed; do
    echo "== FAILED: $(basename "$failed" .failed)"
    tail -n 40 "${failed%.failed}"
done
exit 1
