//! How far each record and each key is to be believed: by the manifest, or by the files alone.

use super::claims::Rank;
use crate::base::keys::{FileNumber, SeqNo};
use crate::offline::repair::files::from_files::FromFiles;
use crate::offline::repair::ranges::{Range, holds, unmerged};
use crate::version::Version;
use std::collections::{HashMap, HashSet};

/// Who decides.
pub(crate) enum Judge {
    Listed(Listed),
    FromFiles(Box<FromFiles>),
}

impl Judge {
    /// The rank of a frame of a record file.
    pub(crate) fn frame(&self, file: FileNumber, key: &[u8], seq: SeqNo) -> Rank {
        match self {
            Judge::Listed(listed) => listed.frame(file, key, seq),
            Judge::FromFiles(files) => files.frame(file, key),
        }
    }

    /// The rank of an entry of a key table.
    pub(crate) fn entry(&self, table: FileNumber, key: &[u8]) -> Rank {
        match self {
            Judge::Listed(_) => Rank::Live,
            Judge::FromFiles(files) => files.entry(table, key),
        }
    }

    /// Whether the range deletes in a record file were written.
    pub(crate) fn range_deletes(&self, file: FileNumber) -> Written {
        match self {
            Judge::Listed(listed) if !listed.files.contains(&file) => {
                Written::Above(listed.last_seq)
            }
            // Without a manifest, whatever has the number of a write is taken for one.
            Judge::Listed(_) | Judge::FromFiles(_) => Written::Yes,
        }
    }

    /// The ranges in which the file is, or may be, an unmerged table.
    pub(crate) fn unmerged_ranges(&self, file: FileNumber) -> Vec<Range> {
        match self {
            Judge::Listed(listed) => listed.unmerged.get(&file).cloned().unwrap_or_default(),
            Judge::FromFiles(files) => {
                if files.may_be_table(file) {
                    vec![(Vec::new(), None)]
                } else {
                    Vec::new()
                }
            }
        }
    }
}

/// Whether what stands in a file was written to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Yes,
    /// A job wrote the file and never committed it: what is at or below this number the log has, or
    /// another file. What is above may have been written.
    Above(SeqNo),
}

/// What a whole manifest says.
pub(crate) struct Listed {
    files: HashSet<FileNumber>,
    /// For each table of an UnsortedStore the ranges of the partitions that have not merged it.
    unmerged: HashMap<FileNumber, Vec<Range>>,
    /// The newest write that the manifest or the log knows.
    last_seq: SeqNo,
}

impl Listed {
    pub(crate) fn new(version: &Version, last_seq: SeqNo) -> Listed {
        let files = version.record_files();
        Listed {
            files: files.iter().map(|file| file.meta().number).collect(),
            unmerged: unmerged(version),
            last_seq: last_seq.max(version.counters.flushed_seq),
        }
    }

    fn frame(&self, file: FileNumber, key: &[u8], seq: SeqNo) -> Rank {
        let ranges = self.unmerged.get(&file);
        if ranges.is_some_and(|ranges| ranges.iter().any(|range| holds(range, key))) {
            Rank::Live
        } else if seq > self.last_seq {
            // Newer than all that is known: the log that named it is lost.
            Rank::Stray
        } else {
            Rank::Copy
        }
    }
}
