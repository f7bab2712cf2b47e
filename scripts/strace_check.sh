#!/usr/bin/env bash
# Watches the `unikv` command with strace: crates/unikv-cli/tests/strace.rs. Every access to a file of
# the database must be on the list in tests/strace/known.rs, the order rules must hold
# (tests/strace/order.rs), and interrupted calls must be taken up again.
#
# Needs strace and the right to use it; skipped without, except with CI set.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
    echo "strace check: skipped: $1"
    if [[ -n ${CI:-} ]]; then exit 1; fi
    exit 0
}
command -v strace >/dev/null || skip "strace is not here"
strace -f -qq -o /dev/null true 2>/dev/null || skip "ptrace is not allowed here"
${CARGO:-cargo} test -p unikv-cli --locked --quiet --test strace -- --ignored --nocapture
