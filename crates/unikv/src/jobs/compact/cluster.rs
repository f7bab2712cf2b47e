//! Choosing what is to be clustered: key tables whose scans have paid for it
//! ([`crate::partition::scatter`]).
//!
//! Clustering is a merge that copies what lies apart of such tables' values to a new file, in key order. It
//! rides on a merge of its partition when one is due, which then copies the values that leave the
//! UnsortedStore in the ranges of these tables, too; or it runs alone. What it leaves behind is garbage like
//! any other, so there is none while garbage is to be collected.
//!
//! One pass copies so many bytes at most (`JobContext::clustered_bytes`); what comes behind them in a table
//! stays where it is until scans have paid for it anew.

use crate::base::keys::FileNumber;
use crate::base::sync::atomic::Ordering;
use crate::key_table::{KeyTable, Scattered};
use crate::partition::scatter::paid_for;
use crate::record::RecordFile;
use crate::version::{Partition, Version};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What a merge is to cluster.
#[derive(Clone, Default)]
pub(crate) struct Clusters {
    /// Key tables, and which of their values lie apart.
    pub(crate) tables: HashMap<FileNumber, Scattered>,
    /// The record files that these are in.
    pub(crate) files: Vec<Arc<RecordFile>>,
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
    paid.sort_by_key(|(sum, ..)| Reverse(*sum));
    let (mut chosen, mut bytes, mut files) = (Clusters::default(), 0, BTreeMap::new());
    for (_, table, apart) in paid {
        if bytes + apart.bytes > most_bytes && !chosen.is_empty() {
            break;
        }
        bytes += apart.bytes;
        let refs = table.meta().refs.iter().map(|refs| refs.file);
        let sources = refs.filter(|file| !apart.stays(*file));
        files.extend(sources.filter_map(|file| Some((file, version.record_file(file)?))));
        chosen.tables.insert(table.meta().number, *apart);
    }
    chosen.files = files.into_values().cloned().collect();
    chosen
}

/// Whether scans have paid for clustering something in `partition`.
pub(crate) fn is_due(partition: &Partition) -> bool {
    let mut tables = partition.key_tables.iter();
    tables.any(|table| paid_for(table).is_some())
}

/// Forgets what scans have paid for what a failed pass was to cluster.
pub(crate) fn forget(partition: &Partition, clusters: &Clusters) {
    let is_chosen = |table: &&Arc<KeyTable>| clusters.tables.contains_key(&table.meta().number);
    let chosen = partition.key_tables.iter().filter(is_chosen);
    chosen.for_each(|table| table.scan_cost.store(0, Ordering::Relaxed));
}
