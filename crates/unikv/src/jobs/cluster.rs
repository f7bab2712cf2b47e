//! Choosing what is to be clustered: key tables whose scans have paid for it
//! ([`crate::partition::scatter`]).
//!
//! Clustering is a merge that copies what lies apart of such tables' values to a new file, in key order. It
//! rides on a merge of its partition when one is due, which then copies the values that leave the
//! UnsortedStore in the ranges of these tables, too; or it runs alone. What it leaves behind is garbage like
//! any other.

use crate::base::keys::FileNumber;
use crate::base::sync::atomic::Ordering;
use crate::partition::scatter::paid_for;
use crate::record::RecordFile;
use crate::version::{Partition, Version};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Files that one pass reads, beyond those of its first table: they share its buffers.
const MOST_FILES: usize = 256;

/// What a merge is to cluster.
#[derive(Clone, Default)]
pub(crate) struct Clusters {
    /// Key tables, each with the file whose values stay where they are.
    pub(super) tables: HashMap<FileNumber, Option<FileNumber>>,
    /// The record files that the other values are in.
    pub(super) files: Vec<Arc<RecordFile>>,
}

impl Clusters {
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }
}

/// What one pass over `partition` clusters: tables for which scans have paid, the one with the highest sum
/// first, until `most_bytes` are to be copied.
pub(crate) fn choose(version: &Version, partition: &Partition, most_bytes: u64) -> Clusters {
    let paid = partition.key_tables.iter().filter_map(|table| {
        let sum = table.scan_cost.load(Ordering::Relaxed);
        Some((sum, table, paid_for(table)?))
    });
    let mut paid: Vec<_> = paid.collect();
    paid.sort_by_key(|(sum, ..)| std::cmp::Reverse(*sum));
    let (mut chosen, mut bytes, mut files) = (Clusters::default(), 0, BTreeMap::new());
    for (_, table, apart) in paid {
        let refs = table.meta().refs.iter().map(|refs| refs.file);
        let sources = refs.filter(|file| Some(*file) != apart.stays);
        let sources: Vec<_> = sources
            .filter_map(|file| Some((file, version.record_file(file)?)))
            .collect();
        let further = sources.iter().filter(|(n, _)| !files.contains_key(n));
        let too_much =
            bytes + apart.bytes > most_bytes || files.len() + further.count() > MOST_FILES;
        if too_much && !chosen.is_empty() {
            break;
        }
        bytes += apart.bytes;
        files.extend(sources);
        chosen.tables.insert(table.meta().number, apart.stays);
    }
    chosen.files = files.into_values().cloned().collect();
    chosen
}

/// Whether scans have paid for clustering something in `partition`.
pub(crate) fn is_due(partition: &Partition) -> bool {
    partition
        .key_tables
        .iter()
        .any(|table| paid_for(table).is_some())
}
