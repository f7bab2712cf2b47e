#!/usr/bin/env bash
# Watches the `unikv` command with strace: crates/unikv-cli/tests/strace.rs. Every access to a file of
# the database must be on the list in tests/strace/known.rs, the order rules must hold
# (tests/strace/order.rs), and interrupted calls must be taken up again.
#
# Needs strace and the right to use ptrace, and is skipped without (scripts/skip.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/skip.sh

command -v strace >/dev/null || skip strace-check "strace is not here"
strace -f -qq -o /dev/null true 2>/dev/null || skip strace-check "ptrace is not allowed here"
${CARGO:-cargo} test -p unikv-cli --locked --quiet --test strace -- --ignored --nocapture
