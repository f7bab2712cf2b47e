//! What the files alone say about which records are in force, when the manifest is lost or cut.
//! `docs/crashes.md`, "What a repair trusts", argues it.
//!
//! Invariants: conclusions rest on these facts only. File numbers ascend in time. Tables are
//! flushed and merged in the order of sequence numbers. Key tables in force are disjoint. Of two
//! that overlap in keys and sequence numbers the later came of a merge of the earlier; a scan run,
//! which looks like a key table, overlaps key tables in keys alone, as all in it is newer. An
//! ingested table does not say how old it is. A file that the rest of the manifest lists as merged
//! stays merged. What does not follow from these is uncertain.
//!
//! No locks; nothing is read or written here.

use crate::base::keys::{FileNumber, SeqNo};
use crate::offline::repair::ranges::{Range, holds, unmerged};
use crate::offline::repair::resolve::claims::Rank;
use crate::version::Version;
use std::collections::{HashMap, HashSet};

/// A key table as it describes itself.
#[derive(Clone, Debug)]
pub(crate) struct TableFacts {
    pub(crate) number: FileNumber,
    pub(crate) min_key: Vec<u8>,
    pub(crate) max_key: Vec<u8>,
    pub(crate) min_seq: SeqNo,
    pub(crate) max_seq: SeqNo,
    pub(crate) refs: HashSet<FileNumber>,
    pub(crate) has_inline_values: bool,
}

impl TableFacts {
    fn covers(&self, key: &[u8]) -> bool {
        self.min_key.as_slice() <= key && key <= self.max_key.as_slice()
    }

    /// Whether it came of a merge that had `older` as an input.
    fn replaces(&self, older: &TableFacts) -> bool {
        let keys_meet = self.min_key <= older.max_key && older.min_key <= self.max_key;
        let seqs_meet = self.min_seq <= older.max_seq && older.min_seq <= self.max_seq;
        let merged_both = self.has_inline_values && older.has_inline_values;
        self.number > older.number && keys_meet && (seqs_meet || merged_both)
    }
}

/// What a record file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A table of a flush, or one of an ingest whose number is known; its least sequence number.
    Table(SeqNo),
    /// A table of an ingest.
    Ingested,
    /// Records without a key section.
    ValueLog,
    /// Its end is lost.
    Unknown,
}

/// The judge by files.
pub(crate) struct FromFiles {
    /// By ascending least key.
    tables: Vec<TableFacts>,
    /// The greatest key of a table and all before it.
    greatest: Vec<Vec<u8>>,
    /// For each table those that replace it.
    replaced_by: HashMap<FileNumber, Vec<usize>>,
    records: HashMap<FileNumber, Shape>,
    /// Files that key tables point to, and those that hold large values of tables or of the log.
    merged: HashSet<FileNumber>,
    large: HashSet<FileNumber>,
    /// As the manifest lists it, if it lists the file.
    listed: HashMap<FileNumber, Vec<Range>>,
}

impl FromFiles {
    pub(crate) fn new(
        mut tables: Vec<TableFacts>,
        records: HashMap<FileNumber, Shape>,
        large: HashSet<FileNumber>,
        prefix: Option<&Version>,
    ) -> FromFiles {
        tables.sort_by(|a, b| a.min_key.cmp(&b.min_key));
        let merged = tables.iter().flat_map(|t| t.refs.iter().copied()).collect();
        let mut greatest: Vec<Vec<u8>> = Vec::with_capacity(tables.len());
        for table in &tables {
            let before = greatest.last().filter(|g| **g > table.max_key);
            greatest.push(before.unwrap_or(&table.max_key).clone());
        }
        let mut listed = prefix.map(unmerged).unwrap_or_default();
        for file in prefix
            .into_iter()
            .flat_map(|version| version.record_files().iter())
        {
            // One that is no table has no range.
            listed.entry(file.meta().number).or_default();
        }
        let mut files = FromFiles {
            tables,
            greatest,
            replaced_by: HashMap::new(),
            records,
            merged,
            large,
            listed,
        };
        for table in &files.tables {
            let meeting = files.meeting(&table.min_key, &table.max_key);
            let newer = meeting.filter(|i| files.tables[*i].replaces(table));
            let newer: Vec<usize> = newer.collect();
            if !newer.is_empty() {
                files.replaced_by.insert(table.number, newer);
            }
        }
        files
    }

    /// The rank of a frame.
    pub(crate) fn frame(&self, file: FileNumber, key: &[u8]) -> Rank {
        match self.records.get(&file) {
            None => Rank::Copy,
            Some(Shape::Table(min_seq)) => self.record_of_table(file, key, Some(*min_seq)),
            Some(Shape::Ingested) => match self.record_of_table(file, key, None) {
                Rank::Copy => Rank::Copy,
                _ => Rank::Unordered,
            },
            Some(_) if self.merged.contains(&file) && !self.is_merged(file, key) => Rank::Stray,
            Some(_) if self.merged.contains(&file) || self.large.contains(&file) => Rank::Copy,
            Some(Shape::ValueLog) => Rank::Stray,
            Some(Shape::Unknown) => Rank::LikelyLive,
        }
    }

    /// The rank of an entry of a key table.
    pub(crate) fn entry(&self, table: FileNumber, key: &[u8]) -> Rank {
        match self.replaced_by.get(&table) {
            None => Rank::Live,
            Some(newer) if newer.iter().any(|i| self.tables[*i].covers(key)) => Rank::Copy,
            Some(_) => Rank::Stray,
        }
    }

    /// Whether the file may be an unmerged table.
    pub(crate) fn may_be_table(&self, file: FileNumber) -> bool {
        let listed = self.listed.get(&file);
        let is_log = self.records.get(&file) == Some(&Shape::ValueLog);
        !is_log && listed.is_none_or(|ranges| !ranges.is_empty())
    }

    /// Whether any key table that can be read overlaps the keys.
    pub(crate) fn is_overlapped(&self, first: &[u8], last: &[u8]) -> bool {
        self.meeting(first, last).next().is_some()
    }

    /// Whether a key table is there that says if the record of `key` in a value log is in force.
    fn is_merged(&self, file: FileNumber, key: &[u8]) -> bool {
        let mut covering = self.meeting(key, key).filter_map(|i| self.tables.get(i));
        covering.any(|table| table.number > file || table.refs.contains(&file))
    }

    fn record_of_table(&self, file: FileNumber, key: &[u8], min_seq: Option<SeqNo>) -> Rank {
        if let Some(ranges) = self.listed.get(&file)
            && !ranges.iter().any(|range| holds(range, key))
        {
            return Rank::Copy;
        }
        let covering: Vec<&TableFacts> = self
            .meeting(key, key)
            .filter_map(|i| self.tables.get(i))
            .collect();
        let merged_here = |t: &&TableFacts| {
            let newer = t.max_seq >= min_seq.unwrap_or(SeqNo::MAX) && t.has_inline_values;
            t.number > file && (t.refs.contains(&file) || newer)
        };
        if covering.iter().any(merged_here) {
            return Rank::Copy;
        }
        let in_force = |t: &&TableFacts| !self.replaced_by.contains_key(&t.number);
        if covering.iter().any(|t| t.number < file && in_force(t)) {
            return Rank::Live;
        }
        if self.merged.contains(&file) {
            Rank::Uncertain
        } else {
            Rank::LikelyLive
        }
    }

    /// The tables with a key between `first` and `last`.
    fn meeting<'a>(&'a self, first: &'a [u8], last: &[u8]) -> impl Iterator<Item = usize> + 'a {
        let end = self
            .tables
            .partition_point(|t| t.min_key.as_slice() <= last);
        let near = (0..end).rev().take_while(move |i| {
            let greatest = self.greatest.get(*i);
            greatest.is_some_and(|greatest| greatest.as_slice() >= first)
        });
        near.filter(move |i| self.tables[*i].max_key.as_slice() >= first)
    }
}
