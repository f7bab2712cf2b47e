//! Comparing the sums and lists that edits maintain with a walk over all tables.

use super::Version;
use super::chunked::{Chunked, Item};
use super::files::{FileSums, RecordFiles};
use super::sums::PartitionSums;
use crate::version::generation::Generation;
use std::sync::Arc;

/// What a list of these items sums up to, made without what is known of earlier ones.
fn made_again<T: Item>(items: impl Iterator<Item = T>) -> Chunked<T> {
    let mut list = Chunked::default();
    for item in items {
        list.insert(item);
    }
    list
}

impl Version {
    /// The sums are those of the tables that there are. For tests and for checks of a database: it
    /// walks all of them.
    pub(crate) fn check_sums(&self) -> Result<(), String> {
        let mut files = RecordFiles::default();
        for file in self.record_files().iter() {
            files.add(Arc::clone(file));
        }
        for table in self.key_tables() {
            files.key_table_added(table);
        }
        let generations = self.partitions().iter().flat_map(|p| &p.generations);
        for (_, table) in generations.flat_map(Generation::shares) {
            files.place_added(table);
        }
        if files.missing != self.files.missing {
            return Err("the uses of missing record files are miscounted".to_owned());
        }
        for (counted, known) in files.listed().zip(self.files.listed()) {
            if counted.used != known.used {
                let number = counted.key().0;
                let (counted, known) = (counted.used, known.used);
                return Err(format!(
                    "record file {number} is used as {counted:?}, not as {known:?}"
                ));
            }
        }
        let fixed = |sums: FileSums| FileSums {
            memory_bytes: 0,
            ..sums
        };
        let (counted, known) = (fixed(files.sums()), fixed(self.files.sums()));
        if counted != known {
            return Err(format!("record files sum up to {counted:?}, not {known:?}"));
        }
        self.check_partitions()
    }

    fn check_partitions(&self) -> Result<(), String> {
        for partition in self.partitions.iter() {
            let counted = PartitionSums::of_key_tables(&partition.key_tables).fixed();
            let known = partition.of_key_tables().fixed();
            if counted != known {
                let id = partition.id.0;
                return Err(format!(
                    "the key tables of partition {id} sum up to {counted:?}, not {known:?}"
                ));
            }
        }
        let counted = PartitionSums::of_all(&made_again(self.partitions.iter().cloned()));
        let (counted, known) = (counted.fixed(), self.partition_sums().fixed());
        if counted != known {
            return Err(format!("partitions sum up to {counted:?}, not {known:?}"));
        }
        let mut ids: Vec<_> = self.partitions.iter().map(|p| (p.id, &*p.start)).collect();
        ids.sort_unstable();
        if !self
            .ids
            .iter()
            .map(|place| (place.id, &*place.start))
            .eq(ids)
        {
            return Err("partitions are not found by their ids".to_owned());
        }
        self.check_gone()?;
        let starts = self.partitions.iter().map(|p| Some(p.start.as_slice()));
        let ends = self.partitions.iter().map(|p| p.end.as_deref());
        let begin = std::iter::once(Some(&[][..]));
        if begin.chain(ends).eq(starts.chain(std::iter::once(None))) {
            Ok(())
        } else {
            Err("the partitions do not cover the key space, each key once".to_owned())
        }
    }
}
