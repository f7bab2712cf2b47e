#!/usr/bin/env bash
# Programs that others wrote for LevelDB's C interface, against our libleveldb: LevelDB's own test of that
# interface, the tests of the crate `leveldb`, and those of the Go module `levigo`. They come from the
# registries when this runs, and stay out of the repository. Counts and failures are named at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/skip.sh

# What must fail: it needs an order of keys that is not bytewise, or cannot read a comparator's keys of
# other lengths than its own.
EXPECTED='comparator::comparator::test_comparator comparator::comparator::test_ord_comparator'
LEVELDB=0.8.6 LEVIGO=v1.0.0

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$target/capi-outside
rm -rf "$out"
mkdir -p "$out/crate/src" "$out/go" "$out/tmp"
export TMPDIR=$out/tmp TEST_TMPDIR=$out/tmp/tests

echo "-- libraries"
cargo build --locked --quiet -p unikv-capi
scripts/link_capi.sh "$target/debug/libunikv_capi.a" "$out/lib"
leveldb=$out/lib/leveldb
export LD_LIBRARY_PATH=$leveldb:$out/lib
failed=0 passed=0

# Says how a suite ended: $1 its name, $2 passed, $3 failed, the rest names of failures.
report() {
    local name=$1 ok=$2 bad=$3
    shift 3
    echo "== $name: $ok passed, $bad failed${*:+: $*}"
    passed=$((passed + ok))
}

echo "-- crate leveldb $LEVELDB"
cat >"$out/crate/Cargo.toml" <<END
[package]
name = "outside"
version = "0.0.0"
edition = "2021"
[dependencies]
leveldb = "=$LEVELDB"
[workspace]
END
touch "$out/crate/src/lib.rs"
if ! (cd "$out/crate" && cargo fetch --quiet) 2>"$out/fetch.log"; then
    cat "$out/fetch.log" >&2
    skip capi-outside "crates.io cannot be reached"
fi
source_of() { # the directory of a package that has been fetched
    (cd "$out/crate" && cargo metadata --format-version 1 --offline --quiet) |
        grep -o '"manifest_path":"[^"]*/'"$1"'-[0-9][^"/]*/Cargo.toml"' | cut -d'"' -f4 | xargs dirname
}
sys=$(source_of leveldb-sys)
cp -r "$(source_of leveldb)" "$out/leveldb"
chmod -R u+w "$out/leveldb"
mkdir -p "$out/leveldb/.cargo"
# The library that leveldb-sys would build is ours instead.
host=$(rustc -vV | sed -n 's/^host: //p')
cat >"$out/leveldb/.cargo/config.toml" <<END
[target.$host.leveldb]
rustc-link-lib = ["leveldb"]
rustc-link-search = ["native=$leveldb"]
END
echo '[workspace]' >>"$out/leveldb/Cargo.toml"
tests=0 bad=()
build() {
    cd "$out/leveldb"
    CARGO_TARGET_DIR=$out/crate/target cargo test --quiet --no-default-features --test tests -- --list
}
if ! (build) >"$out/list.log" 2>"$out/build.log"; then
    cat "$out/build.log" >&2
    exit 1
fi
program=$(find "$out/crate/target/debug/deps" -name 'tests-*' -executable -type f)
linked=$(ldd "$program")
if [[ $linked != *"$leveldb"* ]]; then
    echo "the crate's tests do not use our library" >&2
    exit 1
fi
# One process each, as what a comparator panics in is gone.
for test in $(sed -n 's/: test$//p' "$out/list.log"); do
    if ("$program" --exact "$test" || exit 1) >"$out/one.log" 2>&1; then
        tests=$((tests + 1))
    else
        bad+=("$test")
        if [[ " $EXPECTED " != *" $test "* ]]; then
            cat "$out/one.log" >&2
            failed=1
        fi
    fi
done
report "crate leveldb" "$tests" "${#bad[@]}" "${bad[@]}"
((tests >= 20)) || failed=1

echo "-- LevelDB's own test of its C interface"
c_test=$(find "$sys" -name c_test.c)
${CC:-cc} -o "$out/c_test" -I "$PWD/crates/unikv-capi/include" "$c_test" -L "$leveldb" -lleveldb \
    -Wl,-rpath-link,"$out/lib"
if "$out/c_test" >"$out/c_test.log" 2>&1 && grep -q '^PASS$' "$out/c_test.log"; then
    report "db/c_test.c" 1 0
else
    cat "$out/c_test.log" >&2
    report "db/c_test.c" 0 1 main
    failed=1
fi

echo "-- Go module levigo $LEVIGO"
command -v go >/dev/null || skip capi-outside "there is no Go"
cat >"$out/go/go.mod" <<END
module outside
go 1.20
require github.com/jmhodges/levigo $LEVIGO
END
if ! (cd "$out/go" && GOFLAGS=-mod=mod go mod download github.com/jmhodges/levigo) 2>"$out/fetch.log"; then
    cat "$out/fetch.log" >&2
    skip capi-outside "the Go module proxy cannot be reached"
fi
CGO_ENABLED=1 CGO_CFLAGS="-I$PWD/crates/unikv-capi/include" CGO_LDFLAGS="-L$leveldb -Wl,-rpath-link,$out/lib" \
    GOFLAGS=-mod=mod go test -C "$out/go" -count=1 -v github.com/jmhodges/levigo >"$out/levigo.log" 2>&1 || true
tests=$(grep -c '^--- PASS' "$out/levigo.log" || true)
mapfile -t bad < <(sed -n 's/^--- FAIL: \([^ ]*\).*/\1/p' "$out/levigo.log")
report "levigo" "$tests" "${#bad[@]}" "${bad[@]}"
if ((tests < 3 || ${#bad[@]} > 0)); then
    cat "$out/levigo.log" >&2
    failed=1
fi
rm -rf "$out/tmp"
echo "$passed tests of others passed; that fail as they must: $EXPECTED"
exit "$failed"
