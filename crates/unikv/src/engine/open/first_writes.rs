//! What an opening writes first: its page for secondaries, and a new manifest.
//!
//! On a full disk without a ballast neither can be written. Then the recovered manifest stays in
//! force: what it says can be read. Nothing is changed before both are there, which a later edit
//! makes up for (`engine/catalog/manifest_renewal.rs`).

use crate::base::keys::FileNumber;
use crate::engine::catalog::manifest_renewal::is_mendable;
use crate::engine::space::full_disk::FullDisk;
use crate::engine::visible_page::VisiblePage;
use crate::error::{Error, Result};
use crate::version::Version;
use crate::version::manifest::{Manifest, StayingManifest};
use crate::vfs::file_store::FileStore;

/// The manifest of the process before.
#[derive(Default)]
pub(super) struct Before {
    pub(super) edits: u64,
    pub(super) staying: Option<StayingManifest>,
}

/// What was written.
pub(super) struct FirstWrites {
    pub(super) visible_page: VisiblePage,
    pub(super) manifest: Manifest,
    /// Why nothing could be, if that is so.
    pub(super) refused: Option<Error>,
}

/// Makes the page, before anything else changes, so that a secondary notices; then the manifest,
/// with the next number.
pub(super) fn write_first(
    store: &FileStore,
    space: &FullDisk,
    version: &mut Version,
    before: Before,
    next_file: &mut u64,
) -> Result<FirstWrites> {
    let visible_page = VisiblePage::default();
    let write = || {
        visible_page.make_up(store)?;
        let number = FileNumber(*next_file);
        *next_file += 1;
        version.counters.next_file = *next_file;
        let mut snapshot = version.snapshot();
        snapshot.edits_before = Some(before.edits);
        Manifest::create(store, number, snapshot)
    };
    let (manifest, refused) = match (space.with_ballast(store, write), before.staying) {
        (Err(error), Some(staying)) if is_mendable(&error, store) => {
            (Manifest::stay(staying, &error), Some(error))
        }
        (written, _) => (written?, None),
    };
    Ok(FirstWrites {
        visible_page,
        manifest,
        refused,
    })
}
