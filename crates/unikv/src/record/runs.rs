//! Reading many records of a file at once: neighbours in one read, a *run*.

use super::detours::Detours;
use super::frame::Record;
use super::reader::RecordFile;
use crate::error::Result;
use crate::key_table::{LONGEST_BUFFER, RecordPointer};
use crate::vfs::AROUND_BYTES;
use crate::vfs::file_store::Route;
use bytes::Bytes;

/// Frames with at most so many bytes between them are read together.
pub(crate) const COALESCE_GAP_BYTES: u64 = 4 << 10;
/// Of a run longer than so many times what is wanted of it, that is copied.
const MOST_KEPT_FOR_ONE: u64 = 2;
/// What is read together spans at most so many bytes, unless it is one frame: who keeps one of many records
/// keeps no more alive, the buffer is one that is kept for the next read, and it stays in the processor's cache.
const COALESCE_RUN_BYTES: u64 = LONGEST_BUFFER as u64;

impl RecordFile {
    /// Reads the records that `pointers` name, in any order, and appends them to `out` in that
    /// order. It passes by the cache. Neighbours are read together and then share a buffer of up to
    /// 64 KiB. One damaged record does not harm the others.
    pub(crate) fn read_many(&self, pointers: &[RecordPointer], out: &mut Vec<Result<Record>>) {
        if pointers.is_sorted_by_key(|pointer| pointer.offset) {
            self.read_sorted(pointers, out);
            return;
        }
        let mut order: Vec<usize> = (0..pointers.len()).collect();
        order.sort_unstable_by_key(|&i| pointers[i].offset);
        let sorted: Vec<RecordPointer> = order.iter().map(|&i| pointers[i]).collect();
        let mut results = Vec::with_capacity(sorted.len());
        self.read_sorted(&sorted, &mut results);
        let mut placed: Vec<_> = order.into_iter().zip(results).collect();
        placed.sort_unstable_by_key(|(i, _)| *i);
        out.extend(placed.into_iter().map(|(_, result)| result));
    }

    /// As [`RecordFile::read_many`] for what is in memory, `pointers` being sorted. For the others there is `None`, and
    /// they have been announced: when many files are asked so before any is waited for, the device reads for all of
    /// them at once (paper §III-F). Or they are among the `detours`.
    pub(crate) fn read_present(
        &self,
        pointers: &[RecordPointer],
        detours: &mut Detours,
        out: &mut Vec<Option<Result<Record>>>,
    ) {
        self.read_runs(pointers, out, |offset, len| {
            self.read_run_present(offset, len, detours)
        });
    }

    /// Takes those of sorted `pointers` that are in `detours`, which have been read. For the others there is `None`, and
    /// for these, too, where anything is wrong: the read through the page cache will tell. It may find nothing wrong, if
    /// this process was forked while the device wrote to its memory (`open(2)`, about `O_DIRECT`).
    pub(crate) fn take_around(
        &self,
        pointers: &[RecordPointer],
        detours: &Detours,
        out: &mut Vec<Option<Result<Record>>>,
    ) {
        let first = out.len();
        self.read_runs(pointers, out, |offset, len| {
            let bytes = detours.bytes(self.meta().number, offset);
            Ok(bytes.filter(|bytes| bytes.len() == len))
        });
        for result in out.iter_mut().skip(first) {
            result.take_if(|result| result.is_err());
        }
    }

    fn read_run_present(
        &self,
        offset: u64,
        len: usize,
        detours: &mut Detours,
    ) -> Result<Option<Bytes>> {
        let route = detours.route(&self.file, offset, len);
        if route == Route::Around {
            detours.add(&self.file, offset, len, self.buffer(len + AROUND_BYTES));
            return Ok(None);
        }
        let found = self.read_bytes_present(offset, len)?;
        if route == Route::Trial {
            self.file.tell_trial(len, found.is_some());
        }
        Ok(found)
    }

    fn read_sorted(&self, pointers: &[RecordPointer], out: &mut Vec<Result<Record>>) {
        let mut read = Vec::with_capacity(pointers.len());
        self.read_runs(pointers, &mut read, |offset, len| {
            self.read_bytes_shared(offset, len).map(Some)
        });
        // Every record has been waited for.
        out.extend(read.into_iter().flatten());
    }

    /// Reads sorted pointers, neighbours together, with `read_bytes`; `None` where that gives none.
    fn read_runs(
        &self,
        mut pointers: &[RecordPointer],
        out: &mut Vec<Option<Result<Record>>>,
        mut read_bytes: impl FnMut(u64, usize) -> Result<Option<Bytes>>,
    ) {
        while let [first, behind @ ..] = pointers {
            let (run, rest) = pointers.split_at(self.run_len(*first, behind));
            pointers = rest;
            if let Err(error) = self.check(*first) {
                out.push(Some(Err(error)));
                continue;
            }
            let ends = run.iter().filter_map(RecordPointer::end);
            let end = ends.max().unwrap_or(first.offset);
            let len = end - first.offset;
            let bytes = read_bytes(first.offset, len as usize);
            // Who keeps a value keeps no buffer that was read for little else than gaps.
            let wanted: u64 = run.iter().map(|pointer| u64::from(pointer.len)).sum();
            let copies = len > MOST_KEPT_FOR_ONE * wanted;
            out.extend(run.iter().map(|pointer| match &bytes {
                Ok(Some(bytes)) => Some(self.take_from_run(bytes, first.offset, *pointer, copies)),
                Ok(None) => None,
                // Whatever failed may concern only one of them.
                Err(_) => Some(self.read(*pointer)),
            }));
        }
    }

    /// A record out of the bytes of a run that begins at `start`.
    fn take_from_run(
        &self,
        bytes: &Bytes,
        start: u64,
        pointer: RecordPointer,
        copies: bool,
    ) -> Result<Record> {
        let at = (pointer.offset - start) as usize;
        let frame = at..at + pointer.len as usize;
        let frame = match copies {
            true => Bytes::copy_from_slice(&bytes[frame]),
            false => bytes.slice(frame),
        };
        self.decode_pointed(frame, pointer)
    }

    /// How many sorted pointers are read together: `first`, and of those behind it as many as join it.
    fn run_len(&self, first: RecordPointer, behind: &[RecordPointer]) -> usize {
        let Some(mut end) = first.end().filter(|_| self.check(first).is_ok()) else {
            return 1;
        };
        let joins = behind.iter().take_while(|pointer| {
            let Some(its_end) = pointer.end().filter(|_| self.check(**pointer).is_ok()) else {
                return false;
            };
            let run_end = end.max(its_end);
            let near = pointer.offset.saturating_sub(end) <= COALESCE_GAP_BYTES;
            let joins = near && run_end - first.offset <= COALESCE_RUN_BYTES;
            if joins {
                end = run_end;
            }
            joins
        });
        1 + joins.count()
    }
}
