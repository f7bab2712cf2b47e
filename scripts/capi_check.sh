#!/usr/bin/env bash
# The C library under valgrind and AddressSanitizer, and under programs that others wrote for LevelDB's C
# interface: scripts/capi_check.sh. What a machine lacks is skipped, which CI takes for a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/skip.sh

command -v valgrind >/dev/null || skip capi-check "there is no valgrind"
echo 'int main(void) { return 0; }' | ${CC:-cc} -fsanitize=address -xc - -o /dev/null 2>/dev/null ||
    skip capi-check "the C compiler has no AddressSanitizer"

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$target/capi-check
capi=$PWD/crates/unikv-capi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
rm -rf "$out"
mkdir -p "$out/programs"

echo "-- libraries"
cargo build --locked --quiet -p unikv-capi
scripts/link_capi.sh "$target/debug/libunikv_capi.a" "$out"
system='-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc'
failed=0

# Compiles a program of tests/c against the archives: $1 its file, $2 what it becomes, then options.
compile() {
    local source=$1 program=$2
    shift 2
    local compiler=${CC:-cc} standard=c99
    if [[ $source == *.cc ]]; then compiler=${CXX:-c++} standard=c++11; fi
    "$compiler" -std=$standard -g "$@" -I "$capi/include" -I "$capi/tests/c" -o "$program" \
        "$capi/tests/c/$source" "$out/leveldb/libleveldb.a" "$out/libunikv.a" $system
}

# Runs a program on an empty directory: $1 its name, the rest is the command.
run() {
    local name=$1
    shift
    mkdir -p "$scratch/data"
    if TEST_TMPDIR=$scratch/tests "$@" "$scratch/data" >"$out/$name.log" 2>&1; then
        echo "ok   $name"
    else
        echo "FAIL $name"
        tail -40 "$out/$name.log"
        failed=1
    fi
    rm -rf "$scratch"/*
}

for source in leveldb.c more.c ends.c others.c misuse.c exit.c plus.cc; do
    name=${source%.*}
    compile "$source" "$out/programs/$name"
    # Threads that never end hold what they had.
    leaks=definite,possible
    if [[ $name == exit ]]; then leaks=none; fi
    run "$name-valgrind" valgrind --quiet --leak-check=full --show-leak-kinds=$leaks \
        --errors-for-leak-kinds=$leaks --error-exitcode=9 "$out/programs/$name"
    compile "$source" "$out/programs/$name-asan" -fsanitize=address
    run "$name-asan" "$out/programs/$name-asan"
done
exit "$failed"
