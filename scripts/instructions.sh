#!/usr/bin/env bash
# Counts the instructions of UniKV's operations with callgrind (crates/unikv-bench/benches/instructions),
# and fails if a case takes more than its limit. Takes a minute beside the build; the counts do not depend
# on what else the machine does.
#
# Arguments go to the bench: a filter such as '**::get::*', or --help. What callgrind has written stays
# under target/gungraun, for callgrind_annotate.
#
# Needs valgrind, and is skipped without (scripts/skip.sh). The runner must be of the same
# version as the library, and is installed under target/tools if it is not there.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/skip.sh

command -v valgrind >/dev/null || skip instructions "valgrind is not here"

version=$(awk '/^name = / { name = $3 } /^version = / && name == "\"gungraun-runner\"" { gsub("\"", "", $3); print $3 }' Cargo.lock)
tools=${CARGO_TARGET_DIR:-target}/tools
mkdir -p "$tools"
tools=$(realpath "$tools")
export GUNGRAUN_RUNNER=$tools/bin/gungraun-runner
if [[ "$("$GUNGRAUN_RUNNER" --version 2>/dev/null)" != "gungraun-runner $version" ]]; then
    echo "instructions: installing gungraun-runner $version"
    ${CARGO:-cargo} install --quiet --root "$tools" --version "=$version" --locked gungraun-runner
fi

${CARGO:-cargo} bench -p unikv-bench --features instructions --bench instructions --locked -- "$@"
