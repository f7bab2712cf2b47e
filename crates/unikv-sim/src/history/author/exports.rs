//! Draws exports and imports.
//!
//! From a generator beside the others, so that recorded seeds draw the rest as before.

use super::Author;
use crate::history::{CopyOp, Source};
use crate::spaces::NAMES;
use rand::Rng;

/// Histories with exports.
const EXPORTS_EVERY: u64 = 4;

/// Whether anything is exported in the history of this seed.
pub(super) fn are_in(seed: u64) -> bool {
    // Of those with keyspaces, transactions and expiry, and of the others as many.
    seed / 11 % EXPORTS_EVERY == 1
}

impl Author {
    /// An export, or an import of an earlier one.
    pub(super) fn export_op(&mut self, has_keyspaces: bool) -> CopyOp {
        let in_space = has_keyspaces && self.aside.random_range(0..2) == 0;
        let space = in_space.then(|| self.aside.random_range(0..NAMES.len()));
        match self.aside.random_range(0..4) {
            0 => CopyOp::Export(Source::Snapshot(self.slot()), self.range()),
            1 => CopyOp::Export(space.map_or(Source::Own, Source::Space), self.range()),
            _ => CopyOp::Import(self.aside.random_range(0..100), space),
        }
    }
}
