//! What a run does with range deletes.
//!
//! The oracle knows keys. A range delete is there a write that deletes each key of the range that
//! was ever written.

use super::time::add;
use super::{Interrupt, Runner};
use crate::history::{Key, Range};
use crate::oracle::Change;
use crate::spaces::{self, NAMES, key_in};
use crate::value::Value;
use std::collections::BTreeSet;
use std::ops::{Bound, RangeBounds};
use unikv::Batch;

/// The same bounds, as the database takes them.
pub(super) fn as_bytes((low, high): &(Bound<Key>, Bound<Key>)) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (low.as_ref().map(|k| &k[..]), high.as_ref().map(|k| &k[..]))
}

impl Runner {
    /// The keys of the default keyspace in a range that were ever written.
    pub(super) fn ever_in(&self, range: &Range) -> Vec<Vec<u8>> {
        let bounds = range.bounds();
        let bounds = as_bytes(&bounds);
        let keys = self.oracle.keys().iter().filter(|key| spaces::is_own(key));
        let inside = keys.filter(|key| RangeBounds::<[u8]>::contains(&bounds, &key[..]));
        inside.cloned().collect()
    }

    /// Deletes a range, and writes what comes after it in the same batch.
    pub(super) fn delete_range(
        &mut self,
        range: &Range,
        after: &[(Key, Option<Value>)],
    ) -> Result<(), Interrupt> {
        let deleted = self.ever_in(range).into_iter().map(|key| (key, None));
        let changes = deleted.chain(self.changes(after)).collect();
        let syncs = self.config.syncs_every_write();
        let delete = |runner: &Runner| {
            let db = runner.db();
            match range {
                Range::Prefix(prefix) if after.is_empty() => db.delete_prefix(prefix),
                _ if after.is_empty() => db.delete_range(as_bytes(&range.bounds())),
                _ => {
                    let mut batch = Batch::new();
                    batch.delete_range(as_bytes(&range.bounds()));
                    for (key, value) in after {
                        add(&mut batch, None, key, *value);
                    }
                    db.write(&batch)
                }
            }
        };
        // An empty range writes nothing.
        let writes = !after.is_empty() || !is_empty(range);
        self.change("delete_range", changes, delete, syncs && writes)?;
        Ok(())
    }

    /// Deletes ranges, and writes what comes after them, in one batch.
    pub(super) fn delete_ranges(
        &mut self,
        ranges: &[Range],
        after: &[(Key, Option<Value>)],
    ) -> Result<(), Interrupt> {
        let deleted: BTreeSet<_> = ranges
            .iter()
            .flat_map(|range| self.ever_in(range))
            .collect();
        let deleted = deleted.into_iter().map(|key| (key, None));
        let changes = deleted.chain(self.changes(after)).collect();
        let mut batch = Batch::new();
        for range in ranges {
            batch.delete_range(as_bytes(&range.bounds()));
        }
        for (key, value) in after {
            add(&mut batch, None, key, *value);
        }
        let syncs = self.config.syncs_every_write() && !batch.is_empty();
        self.change(
            "delete_ranges",
            changes,
            |runner| runner.db().write(&batch),
            syncs,
        )?;
        Ok(())
    }

    /// Deletes a range of a keyspace.
    pub(super) fn delete_range_in_space(
        &mut self,
        name: usize,
        range: &Range,
    ) -> Result<(), Interrupt> {
        let name = NAMES[name];
        let Some(keyspace) = self.db().find_keyspace(name) else {
            return Ok(());
        };
        let bounds = range.bounds();
        let bounds = as_bytes(&bounds);
        let prefix = spaces::prefix(name);
        let keys = self
            .oracle
            .keys()
            .iter()
            .filter_map(|key| key.strip_prefix(&prefix[..]));
        let inside = keys.filter(|key| RangeBounds::<[u8]>::contains(&bounds, *key));
        let changes: Vec<Change> = inside.map(|key| (key_in(name, key), None)).collect();
        let syncs = self.config.syncs_every_write() && !is_empty(range);
        let delete = |_: &Runner| keyspace.delete_range(bounds);
        self.change("delete_range of a keyspace", changes, delete, syncs)?;
        Ok(())
    }
}

/// Whether no key can be in a range.
pub(super) fn is_empty(range: &Range) -> bool {
    match range.bounds() {
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Excluded(high)) => low >= high,
        (Bound::Excluded(low), Bound::Included(high)) => low >= high,
        _ => false,
    }
}
