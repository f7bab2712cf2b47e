#!/usr/bin/env bash
# Installs the C library: scripts/install_capi.sh PREFIX [ARCHIVE]. The archive is built in release mode
# unless it is given. DESTDIR, if set, stands before the prefix, for those who make packages.
#
#   include/unikv.h, lib/libunikv.{a,so}, lib/pkgconfig/unikv.pc
#   include/unikv/leveldb/c.h, lib/unikv/libleveldb.{a,so}, lib/pkgconfig/unikv-leveldb.pc
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
prefix=$1 archive=${2:-}
if [[ $prefix != /* ]]; then prefix=$PWD/$prefix; fi
cd "$root"

if [[ -z $archive ]]; then
    cargo build --locked --release -p unikv-capi
    archive=${CARGO_TARGET_DIR:-target}/release/libunikv_capi.a
fi
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
scripts/link_capi.sh "$archive" "$made"
strip --strip-debug "$made/libunikv.a" "$made/libunikv.so.0"

to=${DESTDIR:-}$prefix
install -d "$to/include/unikv/leveldb" "$to/lib/unikv" "$to/lib/pkgconfig"
install -m 644 crates/unikv-capi/include/unikv.h "$to/include/"
install -m 644 crates/unikv-capi/include/leveldb/c.h "$to/include/unikv/leveldb/"
install -m 644 "$made/libunikv.a" "$to/lib/"
install -m 755 "$made/libunikv.so.0" "$to/lib/"
ln -sf libunikv.so.0 "$to/lib/libunikv.so"
install -m 644 "$made/leveldb/libleveldb.a" "$to/lib/unikv/"
install -m 755 "$made/leveldb/libleveldb.so.1" "$to/lib/unikv/"
ln -sf libleveldb.so.1 "$to/lib/unikv/libleveldb.so"

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
cat >"$to/lib/pkgconfig/unikv.pc" <<END
prefix=$prefix
Name: unikv
Description: An embedded, ordered, persistent key-value store
Version: $version
Cflags: -I\${prefix}/include
Libs: -L\${prefix}/lib -lunikv
Libs.private: -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc
END
cat >"$to/lib/pkgconfig/unikv-leveldb.pc" <<END
prefix=$prefix
Name: unikv-leveldb
Description: LevelDB's C interface, provided by UniKV
Version: $version
Requires.private: unikv
Cflags: -I\${prefix}/include/unikv
Libs: -L\${prefix}/lib/unikv -lleveldb -Wl,-rpath-link,\${prefix}/lib
END
