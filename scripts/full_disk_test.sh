#!/usr/bin/env bash
# Fills a file system of 200 MB, deletes half, and sees writing resume: crates/unikv/tests/full_disk.rs
# on a tmpfs. Needs the right to mount one, and is skipped without (scripts/skip.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/skip.sh

dir=$(mktemp -d)
if ! mount -t tmpfs -o size=200m unikv-full-disk "$dir" 2>/dev/null; then
    rmdir "$dir"
    skip full-disk-test "no right to mount a small file system"
fi
trap 'umount "$dir"; rmdir "$dir"' EXIT
trap 'exit 130' INT TERM
UNIKV_SMALL_DISK=$dir ${CARGO:-cargo} test -p unikv-db --locked --test full_disk -- --nocapture
