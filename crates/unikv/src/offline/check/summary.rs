//! What a walk over the entries of one file adds up to, and whether the manifest says the same.

use crate::base::keys::{SeqNo, internal_cmp};
use crate::error::{Error, Result};
use crate::key_table::KeyTableMeta;
use crate::key_table::builder::bounds;
use crate::record::{RecordFileMeta, UNNUMBERED};
use std::path::Path;

/// What a walk over ordered entries found.
#[derive(Default)]
pub(super) struct Summary {
    pub(super) count: u64,
    first: Vec<u8>,
    last: Vec<u8>,
    last_seq: SeqNo,
    min_seq: Option<SeqNo>,
    max_seq: Option<SeqNo>,
}

impl Summary {
    pub(super) fn add(&mut self, key: &[u8], seq: SeqNo, path: &Path, offset: u64) -> Result<()> {
        if self.count == 0 {
            self.first = key.to_vec();
        } else if internal_cmp((&self.last, self.last_seq), (key, seq)).is_ge() {
            return Err(Error::corruption(path, offset, "keys are out of order"));
        }
        self.count += 1;
        self.last.clear();
        self.last.extend_from_slice(key);
        self.last_seq = seq;
        self.add_seq(seq);
        Ok(())
    }

    pub(super) fn add_seq(&mut self, seq: SeqNo) {
        self.min_seq = Some(self.min_seq.map_or(seq, |min| min.min(seq)));
        self.max_seq = Some(self.max_seq.map_or(seq, |max| max.max(seq)));
    }

    /// A record of a file of large values, which stand as their batch had them.
    pub(super) fn add_unordered(&mut self, key: &[u8]) {
        if self.count == 0 || key < self.first.as_slice() {
            self.first = key.to_vec();
        }
        if self.count == 0 || key > self.last.as_slice() {
            self.last = key.to_vec();
        }
        self.count += 1;
        self.min_seq = Some(UNNUMBERED);
        self.max_seq = Some(UNNUMBERED);
    }

    fn compare(&self, count: u64, keys: (&[u8], &[u8]), seqs: (SeqNo, SeqNo)) -> bool {
        self.count == count
            && bounds::is_lower_of(keys.0, &self.first)
            && bounds::is_upper_of(keys.1, &self.last)
            && (self.min_seq, self.max_seq) == (Some(seqs.0), Some(seqs.1))
    }

    pub(super) fn compare_record_file(&self, meta: &RecordFileMeta, path: &Path) -> Result<()> {
        let keys = (meta.min_key.as_slice(), meta.max_key.as_slice());
        disagree(
            self.compare(meta.count, keys, (meta.min_seq, meta.max_seq)),
            path,
        )
    }

    pub(super) fn compare_key_table(&self, meta: &KeyTableMeta, path: &Path) -> Result<()> {
        let keys = (meta.min_key.as_slice(), meta.max_key.as_slice());
        disagree(
            self.compare(meta.count, keys, (meta.min_seq, meta.max_seq)),
            path,
        )
    }
}

/// The error where the manifest says other things of a file than the file.
pub(super) fn disagree(same: bool, path: &Path) -> Result<()> {
    if same {
        return Ok(());
    }
    Err(Error::corruption(
        path,
        0,
        "the file and its entry in the manifest say different things of its contents",
    ))
}
