//! An export, read to its end. With bit 0 of the first byte the checksums are made right, so that
//! lengths, kinds and entries that lie are reached; with bit 1 the counts at the end, too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;
use unikv::vfs::sim::SimVfs;
use unikv_fuzz::{allocation, seal, specimen, typed};

const PATH: &str = "/export";

fuzz_target!(|data: &[u8]| {
    let Some((&flags, bytes)) = data.split_first() else {
        return;
    };
    let mut bytes = bytes.to_vec();
    if flags & 1 != 0 {
        seal::header(&mut bytes, 7, 0, seal::DATABASE);
        seal::export(&mut bytes, flags & 2 != 0);
    }
    let disk = SimVfs::new();
    disk.write_file(Path::new(PATH), &bytes);
    let env = specimen::env(&disk);
    let limit = 32 * bytes.len() + 8192;
    let opened = allocation::bounded(limit, || env.open_export(PATH));
    let Some(export) = typed::checked(opened) else {
        return;
    };
    let found = allocation::bounded(limit, || export.verify());
    if let Some(found) = typed::checked(found) {
        assert_eq!(found.file_bytes, bytes.len() as u64);
        assert!(found.bytes <= found.file_bytes);
        assert_eq!(export.verify().ok(), Some(found));
    }
});
