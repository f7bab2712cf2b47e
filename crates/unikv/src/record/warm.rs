//! Bringing records to the cache that nobody waits for.

use super::direct_reads::DirectReads;
use super::frame::Record;
use super::reader::RecordFile;
use crate::base::keys::FileNumber;
use crate::error::Result;
use crate::key_table::RecordPointer;
use bytes::Bytes;
use std::sync::Arc;

/// Reads those of the records that `pointers` name, ascending, which the cache lacks, all at once
/// where the device can, and keeps them there as such that were asked for. Pointers that lead
/// nowhere, or to what is damaged, are passed over: the caller that wants a record gets its error.
pub(crate) fn warm<'a>(
    pointers: &[RecordPointer],
    file_of: impl Fn(FileNumber) -> Option<&'a Arc<RecordFile>>,
) {
    let runs = || {
        let runs = pointers.chunk_by(|a, b| a.file == b.file);
        runs.filter_map(|run| Some((file_of(run.first()?.file)?, run)))
    };
    let mut direct_reads = DirectReads::new(true);
    for (file, run) in runs() {
        let lacking = file.lacking(run);
        file.read_present(&lacking, &mut direct_reads, |_, record, _| {
            file.keep_warm(record)
        });
    }
    direct_reads.read();
    for (file, run) in runs() {
        let lacking = file.lacking(run);
        file.take_direct(&lacking, &direct_reads, |_, record, _| {
            file.keep_warm(record)
        });
    }
    for (file, run) in runs() {
        let lacking = file.lacking(run);
        file.read_sorted(&lacking, |_, record, _| file.keep_warm(record));
    }
}

impl RecordFile {
    /// Those of `pointers` that are not in the cache and may be.
    fn lacking(&self, pointers: &[RecordPointer]) -> Vec<RecordPointer> {
        let is_lacking = |pointer: &&RecordPointer| {
            self.cache.admits(pointer.len as usize)
                && !self.cache.holds(self.meta().number, pointer.offset)
        };
        pointers.iter().filter(is_lacking).copied().collect()
    }

    fn keep_warm(&self, record: Result<Record>) {
        let Ok(record) = record else {
            return;
        };
        // It may be a part of a buffer.
        let frame = Bytes::copy_from_slice(&record.frame());
        let offset = record.offset();
        if self.cache.admits(frame.len()) {
            self.cache
                .insert_record(self.meta().number, offset, frame, true);
        }
    }
}
