#!/bin/sh
# Fills a file system of 200 MB, deletes half, and sees writing resume: crates/unikv/tests/full_disk.rs
# on a tmpfs. Needs the right to mount one; skipped without it.
set -eu
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
if ! mount -t tmpfs -o size=200m unikv-full-disk "$dir" 2>/dev/null; then
    rmdir "$dir"
    echo "full disk: SKIPPED, no right to mount a small file system"
    exit 0
fi
trap 'umount "$dir"; rmdir "$dir"' EXIT
trap 'exit 130' INT TERM
UNIKV_SMALL_DISK=$dir ${CARGO:-cargo} test -p unikv-db --locked --test full_disk -- --nocapture
