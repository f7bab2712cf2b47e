#!/usr/bin/env bash
# Fills a file system of 200 MB and two of 16 MB, and sees writing resume: crates/unikv/tests/full_disk.rs
# on tmpfs. Needs the right to mount one, and is skipped without (scripts/skip.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/skip.sh

dir=$(mktemp -d)
trap 'umount "$dir"/* 2>/dev/null; rm -r --one-file-system "$dir"' EXIT
trap 'exit 130' INT TERM
for size in 200 16 15; do
    mkdir "$dir/$size"
    mount -t tmpfs -o size=${size}m unikv-full-disk "$dir/$size" 2>/dev/null ||
        skip full-disk-test "no right to mount a small file system"
done
UNIKV_SMALL_DISK=$dir/200 UNIKV_SMALLEST_DISK=$dir/16 UNIKV_FILLED_DISK=$dir/15 \
    ${CARGO:-cargo} test -p unikv-db --locked --test full_disk -- --nocapture
