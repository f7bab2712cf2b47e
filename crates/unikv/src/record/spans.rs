//! Reading many records of a file at once: neighbours in one read, a *span*.
//!
//! The records of a span share its buffer, which counts for as long as any part of it is held.
//! While such buffers take too much, each record is copied out of its span.

use super::direct_reads::DirectReads;
use super::frame::Record;
use super::reader::RecordFile;
use crate::error::Result;
use crate::key_table::{LONGEST_BUFFER, ReadBuffer, RecordPointer, capacity_for, is_tight};
use crate::vfs::DIRECT_EXTRA_BYTES;
use crate::vfs::file_store::Route;
use bytes::Bytes;

/// Frames with at most this many bytes between them are read together.
pub(crate) const COALESCE_GAP_BYTES: u64 = 4 << 10;
/// Of a span longer than this many times what is wanted of it, that is copied.
const MOST_KEPT_FOR_ONE: u64 = 2;
/// What is read together spans at most this many bytes, unless it is one frame: a caller that keeps
/// one of many records keeps no more alive, the buffer is one that is kept for the next read, and
/// it stays in the processor's cache.
const COALESCE_RUN_BYTES: u64 = LONGEST_BUFFER as u64;

/// What the records of a span keep of its bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// There is one, and it is nearly all of them.
    Whole,
    /// All of them together: the buffer counts as shared.
    Share,
    /// Nothing.
    Copy,
}

/// Bytes that are read together, and whether their buffer is to count as shared.
#[derive(Clone, Copy)]
struct Span {
    offset: u64,
    len: usize,
    is_shared: bool,
}

impl RecordFile {
    /// Reads the records that `pointers` name, in any order, and appends them to `out` in that
    /// order. It passes by the cache. Neighbours are read together and then share a buffer of up to
    /// 64 KiB. One damaged record does not harm the others.
    pub(crate) fn read_many(&self, pointers: &[RecordPointer], out: &mut Vec<Result<Record>>) {
        if pointers.is_sorted_by_key(|pointer| pointer.offset) {
            self.read_sorted(pointers, |_, record, _| out.push(record));
            return;
        }
        let mut order: Vec<usize> = (0..pointers.len()).collect();
        order.sort_unstable_by_key(|&i| pointers[i].offset);
        let sorted: Vec<RecordPointer> = order.iter().map(|&i| pointers[i]).collect();
        let mut results = Vec::with_capacity(sorted.len());
        self.read_sorted(&sorted, |_, record, _| results.push(record));
        let mut placed: Vec<_> = order.into_iter().zip(results).collect();
        placed.sort_unstable_by_key(|(i, _)| *i);
        out.extend(placed.into_iter().map(|(_, result)| result));
    }

    /// As [`RecordFile::read_many`], `wanted` being sorted, for what is in memory: `take` gets each
    /// of it, and whether that is a part of a buffer which counts as shared. The others have been
    /// prefetched: when many files are asked so before any is waited for, the device reads for all
    /// of them at once (paper §III-F). Or they are among the `direct_reads`.
    pub(crate) fn read_present<W: AsRef<RecordPointer>>(
        &self,
        wanted: &[W],
        direct_reads: &mut DirectReads,
        take: impl FnMut(&W, Result<Record>, bool),
    ) {
        let read = |span| self.read_run_present(span, direct_reads);
        self.read_spans(wanted, read, take);
    }

    /// Takes those of `wanted`, sorted, that are in `direct_reads`, which have been read; but none
    /// where anything is wrong: the read through the page cache will report it. It may find nothing
    /// wrong, if this process was forked while the device wrote to its memory (`open(2)`, about
    /// `O_DIRECT`).
    pub(crate) fn take_direct<W: AsRef<RecordPointer>>(
        &self,
        wanted: &[W],
        direct_reads: &DirectReads,
        mut take: impl FnMut(&W, Result<Record>, bool),
    ) {
        let read = |span: Span| {
            let bytes = direct_reads.bytes(self.meta().number, span.offset);
            Ok(bytes.filter(|bytes| bytes.len() == span.len))
        };
        self.read_spans(wanted, read, |wanted, record, is_shared| {
            if record.is_ok() {
                take(wanted, record, is_shared);
            }
        });
    }

    /// As [`RecordFile::read_many`], `wanted` being sorted: `take` gets all of them.
    pub(crate) fn read_sorted<W: AsRef<RecordPointer>>(
        &self,
        wanted: &[W],
        take: impl FnMut(&W, Result<Record>, bool),
    ) {
        let read = |span: Span| {
            let buffer = self.read_buffer(span.offset, span.len)?;
            Ok(Some(span.freeze(buffer)))
        };
        self.read_spans(wanted, read, take);
    }

    fn read_run_present(
        &self,
        span: Span,
        direct_reads: &mut DirectReads,
    ) -> Result<Option<Bytes>> {
        let Span { offset, len, .. } = span;
        let route = direct_reads.route(&self.file, offset, len);
        if route == Route::Direct {
            let buffer = self.buffer(len + DIRECT_EXTRA_BYTES);
            direct_reads.add(&self.file, offset, len, buffer, span.is_shared);
            return Ok(None);
        }
        let found = self.read_bytes_present(offset, len)?;
        if route == Route::Trial {
            self.file.note_trial(len, found.is_some());
        }
        Ok(found.map(|buffer| span.freeze(buffer)))
    }

    /// Reads what is `wanted`, sorted, neighbours together, with `read_bytes`; nothing is taken
    /// where that gives nothing.
    fn read_spans<W: AsRef<RecordPointer>>(
        &self,
        mut wanted: &[W],
        mut read_bytes: impl FnMut(Span) -> Result<Option<Bytes>>,
        mut take: impl FnMut(&W, Result<Record>, bool),
    ) {
        while let [first, behind @ ..] = wanted {
            let pointer = *first.as_ref();
            if let Err(error) = self.check(pointer) {
                take(first, Err(error), false);
                wanted = behind;
                continue;
            }
            let (joining, end) = self.joining(pointer, behind);
            let (span, rest) = wanted.split_at(1 + joining);
            wanted = rest;
            let len = (end - pointer.offset) as usize;
            let way = self.way_of(span, len);
            let bytes = read_bytes(Span {
                offset: pointer.offset,
                len,
                is_shared: way == Way::Share,
            });
            for it in span {
                match &bytes {
                    Ok(Some(bytes)) => {
                        let start = pointer.offset;
                        let record = self.take_from_run(bytes, start, *it.as_ref(), way);
                        take(it, record, way == Way::Share);
                    }
                    Ok(None) => {}
                    // Whatever failed may concern only one of them.
                    Err(_) => take(it, self.read(*it.as_ref()), false),
                }
            }
        }
    }

    /// What the records of `span`, which is read with `len` bytes, keep of them.
    fn way_of<W: AsRef<RecordPointer>>(&self, span: &[W], len: usize) -> Way {
        if span.len() == 1 && is_tight(len, capacity_for(len)) {
            return Way::Whole;
        }
        // Who keeps a value keeps no buffer that was read for little else than gaps.
        let bytes_wanted: u64 = span.iter().map(|it| u64::from(it.as_ref().len)).sum();
        if len as u64 > MOST_KEPT_FOR_ONE * bytes_wanted || !self.may_share() {
            Way::Copy
        } else {
            Way::Share
        }
    }

    /// A record out of the bytes of a span that begins at `start`.
    fn take_from_run(
        &self,
        bytes: &Bytes,
        start: u64,
        pointer: RecordPointer,
        way: Way,
    ) -> Result<Record> {
        let at = (pointer.offset - start) as usize;
        let frame = at..at + pointer.len as usize;
        let frame = match way {
            Way::Copy => Bytes::copy_from_slice(&bytes[frame]),
            Way::Share | Way::Whole => bytes.slice(frame),
        };
        self.decode_pointed(frame, pointer)
    }

    /// How many of those `behind` it are read together with `first`, which is in this file, and
    /// where they end.
    fn joining<W: AsRef<RecordPointer>>(&self, first: RecordPointer, behind: &[W]) -> (usize, u64) {
        let mut end = first.end().unwrap_or(first.offset);
        let joins = behind.iter().take_while(|it| {
            let pointer = *(*it).as_ref();
            let Some(its_end) = pointer.end().filter(|_| self.check(pointer).is_ok()) else {
                return false;
            };
            let span_end = end.max(its_end);
            let near = pointer.offset.saturating_sub(end) <= COALESCE_GAP_BYTES;
            let joins = near && span_end - first.offset <= COALESCE_RUN_BYTES;
            if joins {
                end = span_end;
            }
            joins
        });
        (joins.count(), end)
    }
}

impl Span {
    fn freeze(self, buffer: ReadBuffer) -> Bytes {
        if self.is_shared {
            buffer.share()
        } else {
            buffer.freeze()
        }
    }
}
