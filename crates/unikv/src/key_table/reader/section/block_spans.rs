//! Reading many blocks of a table at once: those that stand together in one span, past the page
//! cache where that can be done, because what is in the cache is not needed there, too.

use super::KeySection;
use crate::error::Result;
use crate::item_log::read_buffers::LONGEST_BUFFER;
use crate::key_table::block::fences::{BlockPlace, Fences};
use crate::vfs::DIRECT_EXTRA_BYTES;
use crate::vfs::file_store::DirectFileRead;
use bytes::Bytes;
use std::ops::Range;

/// This many spans are given to the device at once.
pub(crate) const SPANS_AT_ONCE: usize = 4;

/// Blocks that are read together, and where they stand in the file.
struct Span {
    blocks: Range<usize>,
    offset: u64,
    len: usize,
}

impl KeySection {
    /// Brings those blocks to the cache that begin at one of `offsets`, ascending, and are not
    /// there, in spans of at most `span_bytes` where they are longer than one block, as long as
    /// `goes_on`. Other offsets lead nowhere.
    pub(crate) fn warm(&self, offsets: &[u64], span_bytes: usize, goes_on: &dyn Fn() -> bool) {
        // What cannot be read now is reported to the caller that wants it.
        let Ok(fences) = self.fences() else {
            return;
        };
        let is_lacking = |offset: &&u64| !self.cache.holds(self.file.number(), **offset);
        let lacking = offsets.iter().filter(is_lacking);
        let blocks = lacking.filter_map(|offset| fences.block_at(*offset));
        let spans = spans(&fences, blocks, span_bytes.min(LONGEST_BUFFER));
        for together in spans.chunks(SPANS_AT_ONCE) {
            if !goes_on() {
                return;
            }
            self.read_spans(&fences, together, true);
        }
    }

    /// Brings all blocks to the cache, which nobody has asked for.
    pub(super) fn read_all(&self, fences: &Fences) {
        let spans = spans(fences, 0..fences.len(), LONGEST_BUFFER);
        for together in spans.chunks(SPANS_AT_ONCE) {
            self.read_spans(fences, together, false);
        }
    }

    /// Brings the blocks of some spans to the cache.
    fn read_spans(&self, fences: &Fences, spans: &[Span], are_wanted: bool) {
        let buffer = |span: &Span| self.cache.buffer(span.len + DIRECT_EXTRA_BYTES);
        let mut buffers: Vec<_> = spans.iter().map(buffer).collect();
        let wanted = spans
            .iter()
            .zip(&mut buffers)
            .map(|(span, buffer)| DirectFileRead {
                file: &self.file,
                offset: span.offset,
                len: span.len,
                buf: buffer.bytes_mut(),
            });
        let begins = self.file.store().read_direct(wanted.collect());
        for ((span, buffer), begin) in spans.iter().zip(&mut buffers).zip(begins) {
            let buffer = buffer.bytes_mut();
            let begin = begin.map_or_else(|| self.read_through(span, buffer), Ok);
            let read = begin
                .ok()
                .and_then(|begin| buffer.get(begin..begin + span.len));
            let Some(bytes) = read else {
                continue;
            };
            for place in span.blocks.clone().filter_map(|i| fences.place(i)) {
                self.offer(place, span, bytes, are_wanted);
            }
        }
    }

    /// Reads a span to the beginning of `buffer`, and says where it stands there.
    fn read_through(&self, span: &Span, buffer: &mut [u8]) -> Result<usize> {
        let whole = buffer.get_mut(..span.len).unwrap_or_default();
        self.file.read_exact_at(whole, span.offset)?;
        Ok(0)
    }

    /// Offers the cache the block at `place`, out of the bytes of its span. What is wrong with it
    /// is reported to the caller that wants it.
    fn offer(&self, place: BlockPlace, span: &Span, bytes: &[u8], is_wanted: bool) {
        let start = (place.offset - span.offset) as usize;
        let Some(bytes) = bytes.get(start..start + place.len) else {
            return;
        };
        if let Ok(block) = self.verify(Bytes::copy_from_slice(bytes), place) {
            self.cache
                .offer_block(self.file.number(), place.offset, block, is_wanted);
        }
    }
}

/// These blocks, ascending, in spans of at most `span_bytes`, or one block, that fit into a buffer.
/// A longer block is left out.
fn spans(fences: &Fences, blocks: impl Iterator<Item = usize>, span_bytes: usize) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for (i, place) in blocks.filter_map(|i| Some((i, fences.place(i)?))) {
        if let Some(span) = spans.last_mut().filter(|span| span.blocks.end == i) {
            let len = place.offset.saturating_sub(span.offset) as usize + place.len;
            if len <= span_bytes {
                span.blocks.end = i + 1;
                span.len = span.len.max(len);
                continue;
            }
        }
        if place.len <= LONGEST_BUFFER {
            spans.push(Span {
                blocks: i..i + 1,
                offset: place.offset,
                len: place.len,
            });
        }
    }
    spans
}
