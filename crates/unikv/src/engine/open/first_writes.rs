//! What an opening writes first: its page for followers, and a new manifest.
//!
//! On a full disk without a ballast neither can be written. Then the recovered manifest stays in
//! force: what it says can be read. Nothing is changed before both are there, which a later edit
//! makes up for (`engine/catalog/manifest_renewal.rs`).

use crate::base::keys::FileNumber;
use crate::engine::published::Published;
use crate::engine::space::full::DiskFull;
use crate::error::{Error, ErrorKind, Result};
use crate::version::Version;
use crate::version::manifest::{Manifest, StayingManifest};
use crate::vfs::file_store::FileStore;
use std::path::Path;

/// The manifest of the process before.
#[derive(Default)]
pub(super) struct Before {
    pub(super) edits: u64,
    pub(super) staying: Option<StayingManifest>,
}

/// What was written.
pub(super) struct FirstWrites {
    pub(super) published: Published,
    pub(super) manifest: Manifest,
    /// Why nothing could be, if that is so.
    pub(super) refused: Option<Error>,
}

impl Before {
    /// Whether it stays in force where this is why there is no other. What a failed sync of the
    /// directory `dir` has lost is mended by no later one.
    fn may_stay(&self, error: &Error, dir: &Path) -> bool {
        let of_directory = error.file() == Some(dir);
        error.kind() == ErrorKind::DiskFull && !of_directory && self.staying.is_some()
    }
}

/// Makes the page, before anything else changes, so that a follower notices; then the manifest,
/// with the next number.
pub(super) fn write_first(
    store: &FileStore,
    space: &DiskFull,
    version: &mut Version,
    before: Before,
    next_file: &mut u64,
) -> Result<FirstWrites> {
    let (published, refused) = match space.with_ballast(store, || Published::create(store)) {
        Ok(published) => (published, None),
        Err(error) if before.may_stay(&error, store.dir()) => (Published::default(), Some(error)),
        Err(error) => return Err(error),
    };
    let write = || {
        let number = FileNumber(*next_file);
        *next_file += 1;
        version.counters.next_file = *next_file;
        let mut snapshot = version.snapshot();
        snapshot.edits_before = Some(before.edits);
        Manifest::create(store, number, snapshot)
    };
    let written = match refused {
        Some(refused) => Err(refused),
        None => space.with_ballast(store, write),
    };
    let may_stay = |error: &Error| before.may_stay(error, store.dir());
    let is_refused = written.as_ref().is_err_and(may_stay);
    let (manifest, refused) = match (written, before.staying) {
        (Err(error), Some(staying)) if is_refused => (Manifest::stay(staying, &error), Some(error)),
        (written, _) => (written?, None),
    };
    Ok(FirstWrites {
        published,
        manifest,
        refused,
    })
}
