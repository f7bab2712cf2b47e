//! Manifests behind a `CURRENT` that names them. The first byte: whether header (bit 0) and records
//! (bit 1) are made right, or (bit 2) the bytes are one edit and not a file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;
use unikv::fuzzing::{self, Files, ManifestFigures};
use unikv::vfs::sim::SimVfs;
use unikv_fuzz::specimen::env;
use unikv_fuzz::{allocation, seal, typed};

const NUMBER: u64 = 5;

fuzz_target!(|data: &[u8]| {
    let Some((&flags, bytes)) = data.split_first() else {
        return;
    };
    let mut manifest = bytes.to_vec();
    if flags & 4 != 0 {
        manifest = seal::new_log(2, NUMBER, &[(1, bytes)]);
    } else {
        if flags & 1 != 0 {
            seal::header(&mut manifest, 2, NUMBER, seal::DATABASE);
        }
        if flags & 2 != 0 {
            seal::log(&mut manifest, None);
        }
    }
    // Buffers of the readers, and an edit of 6 bytes makes a structure of some hundred. What was
    // ingested may have left any number of slots to the other side of a split.
    let limit = 256 * data.len() + (8 << 20);
    let read = allocation::bounded(limit, || recover(&manifest));
    if let Some(found) = typed::checked(read) {
        assert!(found.edits as u64 <= found.edit_count);
        assert!(found.end <= manifest.len() as u64);
        assert!(found.cut.is_none_or(|cut| cut.offset == found.end));
        // The version as one edit makes the same version.
        let snapshot = seal::new_log(2, NUMBER, &[(1, &found.snapshot)]);
        let again = recover(&snapshot).expect("a snapshot is a manifest");
        assert_eq!(again.snapshot, found.snapshot);
        assert_eq!(fuzzing::edit(&found.snapshot).ok(), Some(found.snapshot));
    }
    let disk = disk(&manifest);
    let path = Path::new("/db/MANIFEST-000005");
    typed::checked(env(&disk).inspect(path, &mut |_| {}));
});

fn disk(manifest: &[u8]) -> SimVfs {
    let disk = SimVfs::new();
    disk.write_file(Path::new("/db/MANIFEST-000005"), manifest);
    let current = seal::current(NUMBER, seal::uid(manifest), seal::DATABASE);
    disk.write_file(Path::new("/db/CURRENT"), &current);
    disk
}

fn recover(manifest: &[u8]) -> unikv::Result<ManifestFigures> {
    Files::new(env(&disk(manifest)), Path::new("/db"), seal::DATABASE).manifest()
}
