//! The tables for which reads have made something worth its cost: a pointer index, or to read all
//! blocks at once.
//!
//! Invariant: a table is reported once, by the read whose charge reaches the cost, and taken off by
//! the background, which makes what it wants or makes the next attempt cost more.
//!
//! Locks: those of the lists, leaves.

use crate::base::account::Reports;
use crate::base::keys::FileNumber;

/// See the module.
#[derive(Default)]
pub(crate) struct Wishes {
    indexes: Reports<FileNumber>,
    blocks: Reports<FileNumber>,
}

/// What a table wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Index,
    Blocks,
}

impl Wishes {
    /// Wishes are heard from now on.
    pub(crate) fn hear(&self) {
        self.indexes.hear();
        self.blocks.hear();
    }

    /// The tables that want this.
    pub(crate) fn of(&self, wish: Wish) -> &Reports<FileNumber> {
        match wish {
            Wish::Index => &self.indexes,
            Wish::Blocks => &self.blocks,
        }
    }
}
