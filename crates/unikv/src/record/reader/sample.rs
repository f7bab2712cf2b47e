//! Values of a record file to learn a dictionary from.

use super::RecordFile;
use crate::base::file_header::HEADER_LEN;
use crate::base::keys::{KeyspaceId, Kind};
use crate::codec::Codec;
use crate::codec::dictionary::Samples;
use crate::record::frame::{FRAME_HEADER_LEN, FrameHeader, MIN_FRAME_LEN, StoredRecord};
use bytes::Bytes;

/// Values are taken from this many places of the file.
const PLACES: u64 = 16;
/// More than the samples of a place, as its first record has to be found.
const LONGEST_READ: u64 = 64 << 10;

impl RecordFile {
    /// Adds values of a keyspace to `samples`, about `most_bytes`, from all over the file. What is
    /// damaged gives none: whoever needs it gets its error.
    pub(crate) fn sample(&self, keyspace: KeyspaceId, most_bytes: usize, samples: &mut Samples) {
        let records = HEADER_LEN as u64..self.meta.records_end;
        let len = records.end.saturating_sub(records.start);
        let of_place = most_bytes / PLACES as usize;
        for place in 0..PLACES {
            let offset = records.start + len / PLACES * place;
            let read = (2 * of_place as u64).clamp(4 << 10, LONGEST_READ);
            let read = read.min(len / PLACES).min(records.end - offset);
            if samples.are_enough() || read < MIN_FRAME_LEN as u64 {
                return;
            }
            let until = samples.bytes() + of_place;
            if let Ok(buffer) = self.read_buffer(offset, read as usize) {
                self.sample_from(&buffer.freeze(), offset, keyspace, until, samples);
            }
        }
    }

    /// Adds the values of records in `bytes`, which stand at `start`, until there are `until` bytes
    /// of samples.
    fn sample_from(
        &self,
        bytes: &Bytes,
        start: u64,
        keyspace: KeyspaceId,
        until: usize,
        samples: &mut Samples,
    ) {
        let mut at = 0;
        while at + FRAME_HEADER_LEN <= bytes.len() && samples.bytes() < until {
            let place = self.place(start + at as u64);
            let rest = bytes.slice(at..);
            let stands = FrameHeader::stands_before(&rest, &place);
            let header = stands.then(|| FrameHeader::decode(&rest, &place));
            let Some(Ok(header)) = header else {
                at += 1;
                continue;
            };
            let is_short = header.codec != Codec::Chunks && header.frame_len() <= rest.len();
            if header.kind == Kind::Put && is_short {
                let record = StoredRecord::verify(rest, header, &place);
                let record = record.and_then(|record| self.expanded(record));
                let of_keyspace = record.ok().filter(|r| KeyspaceId::of(r.key()) == keyspace);
                if let Some(record) = of_keyspace {
                    samples.add(record.value_slice());
                }
            }
            at += header.frame_len();
        }
    }
}
