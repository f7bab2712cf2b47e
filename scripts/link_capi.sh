#!/usr/bin/env bash
# Makes the libraries of C from the archive that cargo has built: scripts/link_capi.sh ARCHIVE OUT
# puts into OUT libunikv.a and libunikv.so, and leveldb/libleveldb.a and leveldb/libleveldb.so, which lead
# to them. The shared ones export what crates/unikv-capi/link/*.map lists, with versions, and nothing else.
set -euo pipefail
archive=$1 out=$2
capi=$(cd "$(dirname "$0")/../crates/unikv-capi" && pwd)
cc=${CC:-cc}

# What Rust's standard library takes of the system: `rustc --print native-static-libs`.
system='-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc'

mkdir -p "$out/leveldb"
cp "$archive" "$out/libunikv.a"
$cc -shared -o "$out/libunikv.so.0" -Wl,-soname,libunikv.so.0 \
    -Wl,--version-script="$capi/link/unikv.map" -Wl,--gc-sections -Wl,-z,defs -Wl,-z,relro -Wl,-z,now \
    -Wl,--whole-archive "$out/libunikv.a" -Wl,--no-whole-archive $system
ln -sf libunikv.so.0 "$out/libunikv.so"

# The name and the version that LevelDB's own library has, so that programs find it that were linked before.
$cc -c -O2 -fPIC -Wall -Wextra -Werror -I "$capi/include" -o "$out/leveldb/leveldb.o" "$capi/link/leveldb.c"
rm -f "$out/leveldb/libleveldb.a"
ar rcs "$out/leveldb/libleveldb.a" "$out/leveldb/leveldb.o"
$cc -shared -o "$out/leveldb/libleveldb.so.1" -Wl,-soname,libleveldb.so.1 \
    -Wl,--version-script="$capi/link/leveldb.map" -Wl,-z,defs -Wl,-rpath,'$ORIGIN/..' \
    "$out/leveldb/leveldb.o" -L "$out" -lunikv
ln -sf libleveldb.so.1 "$out/leveldb/libleveldb.so"
rm "$out/leveldb/leveldb.o"
