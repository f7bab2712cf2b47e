//! The tables for which reads have made something worth its cost: a pointer index, or to read all
//! blocks at once.
//!
//! Invariant: a table is reported once, by the read whose charge reaches the cost, and taken off by
//! the background, which makes what it wants or makes the next attempt cost more. Where nobody
//! hears of them, as in a follower, none is kept.
//!
//! Locks: one for each list, leaves.

use crate::base::keys::FileNumber;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::Ordering;
use crate::base::sync::unseen::AtomicBool;
use std::collections::BTreeSet;

/// See the module.
#[derive(Default)]
pub(crate) struct Wishes {
    is_heard: AtomicBool,
    indexes: Mutex<BTreeSet<FileNumber>>,
    blocks: Mutex<BTreeSet<FileNumber>>,
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
        self.is_heard.store(true, Ordering::Relaxed);
    }

    pub(in crate::key_table) fn report(&self, table: FileNumber, wish: Wish) {
        if self.is_heard.load(Ordering::Relaxed) {
            self.list(wish).lock().insert(table);
        }
    }

    /// Whether any table wants this.
    pub(crate) fn are_any(&self, wish: Wish) -> bool {
        !self.list(wish).lock().is_empty()
    }

    /// Takes a table off the list.
    pub(crate) fn take(&self, wish: Wish) -> Option<FileNumber> {
        self.list(wish).lock().pop_first()
    }

    fn list(&self, wish: Wish) -> &Mutex<BTreeSet<FileNumber>> {
        match wish {
            Wish::Index => &self.indexes,
            Wish::Blocks => &self.blocks,
        }
    }
}
