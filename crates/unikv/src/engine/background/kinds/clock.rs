//! Noting the time, while there is something that expires.
//!
//! The manifest has the job clock, from which the next opening goes on ([`crate::vfs::clock`]).
//! Each edit notes it, and where a minute has passed without one, an edit that does nothing else.
//! So a crash takes a minute of it at most.

use crate::engine::background::{Background, Ended};
use crate::engine::catalog::Indexes;
use crate::error::Result;
use crate::version::edit::VersionEdit;

impl Background {
    /// An operator says that the wall clock is right: what has expired by it may be destroyed.
    pub(crate) fn trust_wall_clock(&self) -> Result<()> {
        self.core.check_open()?;
        let mut catalog = self.catalog.lock();
        self.core.clock.trust_wall_clock();
        let edit = VersionEdit {
            clock_ms: Some(self.core.clock.note_ms()),
            ..VersionEdit::default()
        };
        let indexes = Indexes::new();
        let noted = self
            .catalog
            .commit_edit(&mut catalog, edit, &indexes, |_| ());
        drop(catalog);
        self.core.work.notify();
        noted
    }

    pub(in crate::engine::background) fn note_clock(&self) -> Result<Ended> {
        let clock = &self.core.clock;
        let view = self.read.view.load_full();
        let is_empty = view.memtable.table.is_empty() && view.sealed.is_empty();
        if is_empty && !view.version.expires() {
            // Nothing expires any more.
            clock.noted(self.core.now());
            return Ok(Ended::Nothing);
        }
        let mut catalog = self.catalog.lock();
        let (edit, indexes) = (VersionEdit::default(), Indexes::new());
        self.catalog
            .commit_edit(&mut catalog, edit, &indexes, |_| ())?;
        Ok(Ended::Done)
    }
}
