//! Replacing the manifest: when it has grown long, and when a full disk has broken it.
//! `docs/crashes.md`, "A manifest that a full disk has broken", argues that nothing is lost or
//! comes back.
//!
//! Invariants:
//! - Nothing is appended after an edit whose append or sync failed: that manifest stays poisoned.
//! - Inputs of that edit, its outputs, files of failed renewals and what an opening has not swept
//!   stay until a new manifest is durable under `CURRENT`. Their numbers are never given again.
//! - Edits are counted when they succeed: a segment claims no more than the older manifest holds.
//! - Each attempt makes a file of its own, and no failed sync is tried again. Only a full disk is
//!   mended so. A failed sync of the directory, which may lose other names, is fatal until reopen.

use crate::base::seeded::seeded;
use crate::base::sync::atomic::Ordering;
use crate::engine::catalog::{Catalog, CatalogState};
use crate::error::{Error, ErrorKind, Result};
use crate::jobs::JobContext;
use crate::version::file_names;
use crate::version::manifest::Manifest;
use crate::vfs::file_store::FileStore;
use std::path::PathBuf;

/// A manifest of this many times the length of its snapshot is replaced by a new one.
const MANIFEST_GROWTH: u64 = 8;
const MANIFEST_LEAST_BYTES: u64 = 4 << 20;

/// Whether a failure of the manifest is one that space and a new manifest mend. What a failed sync
/// of the directory has lost is mended by no later one.
pub(crate) fn is_mendable(error: &Error, store: &FileStore) -> bool {
    error.kind() == ErrorKind::DiskFull && error.file() != Some(store.dir())
}

impl Catalog {
    /// Takes notice of a failure of the manifest.
    pub(crate) fn manifest_failed(&self, error: &Error) {
        if is_mendable(error, &self.core.store) {
            self.space.note_full(error);
        } else {
            self.core.set_fatal(error);
        }
    }

    /// The job in `context` has failed to commit. Where its edit may be durable, the files that it
    /// began are kept until a new manifest says that it is not. Else they are removed: they would
    /// gather while no manifest can be made.
    pub(crate) fn quarantine(&self, catalog: &mut CatalogState, context: &JobContext<'_>) {
        if !catalog.append_tried || seeded!(RemoveUnsure) {
            self.core.store.remove_files(context.begun.take());
        }
        catalog.quarantined.append(&mut context.begun.take());
    }

    /// Replaces a manifest that a full disk has broken. An error if that is not possible now.
    pub(crate) fn renew_full_manifest(&self, catalog: &mut CatalogState) -> Result<()> {
        match catalog.manifest.poisoned() {
            Some(error) if is_mendable(error, &self.core.store) => {
                let made = self.core.visible_page.make_up(&self.core.store);
                made.inspect_err(|error| self.space.note_full(error))?;
                self.renew_manifest(catalog)
            }
            _ => Ok(()),
        }
    }

    /// Replaces a manifest that has grown long. What fails is noted: the edit that made it long
    /// stands.
    pub(crate) fn renew_long_manifest(&self, catalog: &mut CatalogState) {
        let long = catalog.manifest_snapshot_len * MANIFEST_GROWTH;
        let long = long.max(MANIFEST_LEAST_BYTES.min(self.core.memory.plan.manifest_bytes));
        if catalog.manifest.len() >= long && !self.space.full_disk.is_full() {
            let _noted = self.renew_manifest(catalog);
        }
    }

    /// Makes a manifest that holds a snapshot of the version in memory, durable under `CURRENT`.
    fn renew_manifest(&self, catalog: &mut CatalogState) -> Result<()> {
        let number = self.core.next_file_number();
        let mut snapshot = catalog.version.snapshot();
        snapshot.next_file = Some(self.core.next_file.load(Ordering::Relaxed));
        snapshot.edits_before = Some(catalog.manifest.edits());
        let (counters, manifest_len) = (&self.core.counters, catalog.manifest.len());
        let lifetime = counters.lifetime(&catalog.version, manifest_len);
        snapshot.lifetime = Some(lifetime.encode());
        // Until CURRENT is replaced the old one goes on as it was.
        let written = Manifest::write(&self.core.store, number, snapshot);
        let mut renewed = written.inspect_err(|error| self.space.note_full(error))?;
        if let Err(error) = renewed.make_current(&self.core.store) {
            // CURRENT may name the new one: nothing is appended to the old one any more.
            catalog.manifest.poison(&error);
            let path = self.core.store.dir().join(file_names::manifest(number));
            catalog.quarantined.push(path);
            self.manifest_failed(&error);
            return Err(error);
        }
        let old = std::mem::replace(&mut catalog.manifest, renewed);
        self.core
            .counters
            .retired_manifest_bytes
            .fetch_add(old.len(), Ordering::Relaxed);
        self.manifest_edits
            .store(catalog.manifest.edits(), Ordering::Release);
        self.is_staying.store(false, Ordering::Release);
        self.core.visible_page.edits(catalog.manifest.edits());
        catalog.manifest_snapshot_len = catalog.manifest.len();
        let orphans: Vec<PathBuf> = catalog.quarantined.drain(..).collect();
        self.core
            .store
            .remove_files(orphans.into_iter().chain([old.path().to_owned()]));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::Batch;
    use crate::base::keys::FileNumber;
    use crate::engine::tests::common::listed_by_manifest;
    use crate::engine::tests::{Machine, Model, churn, same, small};
    use crate::version::edit::VersionEdit;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    #[test]
    fn a_renewed_manifest_says_all_that_the_long_one_said() {
        let machine = Machine::new(81);
        let (db, _) = machine.open(small());
        let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(81));
        for round in 0..3 {
            churn(&db, &mut model, &mut rng, 200);
            let mut batch = Batch::new();
            db.write(batch.set_commit_tag(format!("mark {round}")))
                .unwrap();
            db.flush().unwrap();
        }
        db.wait_until_idle().unwrap();
        churn(&db, &mut model, &mut rng, 20);
        db.sync().unwrap();

        let engine = &db.0.engine;
        let (_, before) = listed_by_manifest(&machine);
        engine
            .catalog
            .renew_manifest(&mut engine.catalog.lock())
            .unwrap();
        let (_, after) = listed_by_manifest(&machine);
        assert!(before.wal_low_water > Some(FileNumber(0)), "{before:?}");
        assert_eq!(before.commit_tag.as_deref(), Some(&b"mark 2"[..]));
        // It has taken a number, counts as an edit itself, and its figures are newer.
        assert!(after.next_file > before.next_file);
        let expected = VersionEdit {
            next_file: after.next_file,
            edits_before: before.edits_before.map(|edits| edits + 1),
            lifetime: after.lifetime.clone(),
            ..before
        };
        assert_eq!(after, expected);

        let machine = Machine {
            disk: machine.disk.process_kill(),
            seed: 82,
        };
        let (db, _) = machine.open(small());
        same(&db, &model);
        assert_eq!(db.commit_tag().as_deref(), Some(&b"mark 2"[..]));
    }
}
