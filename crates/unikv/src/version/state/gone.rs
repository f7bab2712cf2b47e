//! The partitions in whose range no keyspace is: what they hold is to be removed, and they
//! themselves are to be joined.
//!
//! Edits maintain the list, so that the background need not ask each partition. Invariant: a
//! partition is listed if and only if [`Keyspaces::count_in`] its range is 0. That changes for
//! partitions that an edit adds, removes or ends earlier, and for those in the range of a keyspace
//! that it adds or removes ([`super::check`] compares).
//!
//! [`Keyspaces::count_in`]: crate::version::keyspaces::Keyspaces::count_in

use super::chunked::Item;
use super::{Partition, Version};
use crate::base::keys::KeyspaceId;
use crate::version::edit::VersionEdit;
use std::sync::Arc;

/// Where a partition begins in whose range no keyspace is.
#[derive(Clone)]
pub(super) struct Gone(Arc<[u8]>);

impl Item for Gone {
    type Key = [u8];
    type Sum = ();

    fn key(&self) -> &[u8] {
        &self.0
    }

    fn add_to(&self, _: Option<&Gone>, _: &mut ()) {}
}

impl Version {
    /// The partitions in whose range no keyspace is, in key order.
    pub(crate) fn gone_partitions(&self) -> impl Iterator<Item = &Arc<Partition>> {
        let starts = self.gone.iter();
        starts.filter_map(|Gone(start)| self.partitions.find(start))
    }

    /// Updates the list after an edit of partitions, of which `removed` are the starts of those
    /// that it has taken out, and of keyspaces, of which `data` are the numbers that have come or
    /// gone.
    pub(in crate::version) fn find_gone(
        &mut self,
        edit: &VersionEdit,
        removed: &[Vec<u8>],
        data: &[KeyspaceId],
    ) {
        for meta in &edit.partitions {
            self.note_gone(&meta.start);
        }
        for start in removed {
            self.note_gone(start);
        }
        for data in data {
            let met = self.partitions_met_by(*data);
            let starts: Vec<Vec<u8>> = met.map(|p| p.start.clone()).collect();
            starts.iter().for_each(|start| self.note_gone(start));
        }
    }

    fn note_gone(&mut self, start: &[u8]) {
        let partition = self.partitions.find(start);
        let is_gone = partition.is_some_and(|p| self.keyspaces.count_in(p.range()) == 0);
        if is_gone {
            self.gone.insert(Gone(start.into()));
        } else {
            self.gone.remove(start);
        }
    }

    /// Whether the list is as a walk over all partitions makes it.
    pub(super) fn check_gone(&self) -> Result<(), String> {
        let all = self.partitions.iter();
        let gone = all.filter(|p| self.keyspaces.count_in(p.range()) == 0);
        let gone = gone.map(|p| p.start.as_slice());
        if gone.eq(self.gone.iter().map(|Gone(start)| &**start)) {
            Ok(())
        } else {
            Err("the partitions without a keyspace are not listed as they are".to_owned())
        }
    }
}
