#!/usr/bin/env bash
# Writes the public interface of the engine to docs/api.txt, made from the JSON that rustdoc writes of the
# documented code, and the help of the command to docs/help.txt.
#
#   scripts/api.sh          writes both
#   scripts/api.sh check    fails if docs/api.txt is stale; docs/help.txt has a test (crates/unikv-cli/tests)
#
# Stable toolchain: RUSTC_BOOTSTRAP lets rustdoc write JSON, whose form changes with the release of Rust. What
# it enables in build scripts would have the workspace built again, hence a target directory of its own.
#
# Variables: CARGO, CI and MAY_SKIP (see scripts/skip.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/skip.sh

cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-$PWD/target}/api
json=$target/doc/unikv.json
# The form of the JSON of Rust 1.95, as which the interface is written. Others name some things otherwise.
FORMAT=57

RUSTC_BOOTSTRAP=1 $cargo rustdoc -p unikv-db --lib --features tracing --locked --quiet \
    --target-dir "$target" -- -Zunstable-options --output-format json
grep -q "\"format_version\":$FORMAT\b" "$json" ||
    skip api "$(rustc -V) writes another JSON than Rust 1.95, with which docs/api.txt is made"

made=$target/api.txt
cat >"$made" <<'END'
# The public interface of the crate `unikv` with the features that are on by default and `tracing`, one line
# per item. `make api` writes it, and `make lint` fails if it is stale: a change of the interface shows in a
# diff of this file. An implementation of a trait is one line; those that the compiler adds by itself
# (`Send`, `Sync`) and those for all types are left out.
#
# Types of other crates that are public, whose next major version would be one of ours:
# - `bytes::Bytes`: keys and values handed out as slices of the buffer they were read into, without a copy.
# - `serde::Serialize` and `Deserialize` (`serde_core` below), implemented by the figures: other processes
#   read them as JSON.
END
$cargo run --quiet --locked --manifest-path crates/unikv-api/Cargo.toml --target-dir "$target/tool" -- \
    "$json" >>"$made"

if [[ ${1:-} == check ]]; then
    diff -u docs/api.txt "$made" || {
        echo "docs/api.txt is stale: run \`make api\`, and look at what it changes" >&2
        exit 1
    }
    exit 0
fi
cp "$made" docs/api.txt
UNIKV_REWRITE=1 $cargo test -p unikv-cli --locked --quiet --test help
