//! The record files to which a job writes the values that it moves.
//!
//! A job of several partitions puts them into one file: a file each would cost more than what is in
//! it. Keyspaces whose values want different dictionaries have files of their own.
//!
//! Invariant: values lie in key order, as the job takes its partitions in that order. What has
//! outlived its file is likely to live on, and is kept apart from fresh values (HashKV §3.4).
//!
//! No locks.

use super::copy_dictionary;
use crate::base::keys::KeyspaceId;
use crate::codec::{Compression, Dictionary};
use crate::error::Result;
use crate::jobs::JobContext;
use crate::record::{RecordFile, RecordFileMeta, RecordWriter};
use crate::version::file_names;
use std::sync::Arc;

/// See the module.
pub(crate) struct MovedValues {
    /// Bytes from which a file is full.
    most_bytes: u64,
    writer: Option<RecordWriter>,
    /// That of the file being written, if it has one.
    dictionary: Option<Arc<Dictionary>>,
    /// The keyspace with Zstandard that was last.
    of: Option<KeyspaceId>,
    finished: Vec<RecordFileMeta>,
    /// Whether a file was begun. One that could not be ended is in neither of the others.
    has_begun: bool,
}

impl MovedValues {
    /// For files of `most_bytes`, or one record more.
    pub(crate) fn new(most_bytes: u64) -> MovedValues {
        MovedValues {
            most_bytes,
            writer: None,
            dictionary: None,
            of: None,
            finished: Vec::new(),
            has_begun: false,
        }
    }

    /// Whether any value has been written, or may have been.
    pub(crate) fn are_any(&self) -> bool {
        self.has_begun
    }

    /// The file to write the next value to, which is of `key` and moves out of one of `victims`.
    pub(super) fn writer<'f>(
        &mut self,
        context: &JobContext<'_>,
        key: &[u8],
        compression: Compression,
        victims: impl Iterator<Item = &'f Arc<RecordFile>>,
    ) -> Result<&mut RecordWriter> {
        let keyspace = KeyspaceId::of(key);
        let known = context.dictionaries;
        if matches!(compression, Compression::Zstd { .. }) && self.of != Some(keyspace) {
            let next = copy_dictionary::choose(victims, compression, keyspace, known);
            let hash = |it: &Option<Arc<Dictionary>>| it.as_ref().map(|it| it.hash());
            if hash(&next) != hash(&self.dictionary) {
                self.end_file()?;
            }
            self.dictionary = next;
            self.of = Some(keyspace);
        }
        let most = self.most_bytes;
        if self.writer.as_ref().is_some_and(|it| it.len() >= most) {
            self.end_file()?;
        }
        Ok(match &mut self.writer {
            Some(writer) => writer,
            slot @ None => {
                let create = |number| RecordWriter::create(context.store, number, 0);
                let writer = context.begin_file(file_names::record, create)?;
                self.has_begun = true;
                slot.insert(writer.with_dictionary(self.dictionary.clone()))
            }
        })
    }

    fn end_file(&mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            self.finished.push(writer.finish(None)?.bounded());
        }
        Ok(())
    }

    /// Ends all files.
    pub(crate) fn finish(mut self) -> Result<Vec<RecordFileMeta>> {
        self.end_file()?;
        Ok(self.finished)
    }
}
