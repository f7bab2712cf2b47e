//! What range tombstones hide of the versions of a key.
//!
//! The newest version at or below the snapshot decides, unless a range tombstone covers the key
//! that is newer than it and not newer than the snapshot. All range tombstones of a view are known
//! by number: those of the memtables, which may be newer than any table, and those of the tables of
//! the partition's UnsortedStore. The SortedStore has none: a merge makes point tombstones of them.
//!
//! Comparisons are by the sequence number of the key's entry, never by that of a record it points
//! to: large values and what was ingested carry none.

pub(super) mod around;
pub(super) mod gaps;

use crate::base::keys::SeqNo;
use crate::error::{Error, Result};

/// What of a key is hidden by range tombstones.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    /// What is older is deleted.
    before: SeqNo,
    /// Tombstones that cannot be read might hide what is older than this.
    doubt: Option<Box<(SeqNo, Error)>>,
}

impl Hidden {
    /// A tombstone hides what is older than it.
    fn add(&mut self, tombstone: Option<SeqNo>) {
        self.before = self.before.max(tombstone.unwrap_or_default());
    }

    /// Whether nothing is hidden, whatever its number.
    #[inline]
    pub(super) fn is_nothing(&self) -> bool {
        self.before == SeqNo(0) && self.doubt.is_none()
    }

    /// Whether all versions up to this number are deleted, for certain.
    #[inline]
    pub(super) fn hides_all(&self, newest: SeqNo) -> bool {
        newest < self.before
    }

    /// Whether the version with this number is deleted. An error if that is in doubt.
    #[inline]
    pub(super) fn hides(&self, seq: SeqNo) -> Result<bool> {
        if seq < self.before {
            return Ok(true);
        }
        match &self.doubt {
            Some(doubt) if seq < doubt.0 => Err(doubt.1.clone()),
            _ => Ok(false),
        }
    }
}
