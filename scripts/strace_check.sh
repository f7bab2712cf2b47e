#!/usr/bin/env bash
# Watches the `unikv` command with strace: crates/unikv-cli/tests/strace.rs. Every access to a file of
# the database must be on the list in tests/strace/known.rs, the order rules must hold
# (tests/strace/order.rs), and interrupted calls must be taken up again.
#
# Needs strace, and is skipped without (with CI set it fails instead); skipped where ptrace is not allowed.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v strace >/dev/null; then
    echo "strace check: skipped: strace is not here"
    if [[ -n ${CI:-} ]]; then exit 1; fi
    exit 0
fi
if ! strace -f -qq -o /dev/null true 2>/dev/null; then
    echo "strace check: skipped: ptrace is not allowed here"
    exit 0
fi
${CARGO:-cargo} test -p unikv-cli --locked --quiet --test strace -- --ignored --nocapture
