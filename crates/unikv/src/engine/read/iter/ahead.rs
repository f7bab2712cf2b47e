//! How far a file is read on ahead of a long iteration.

use crate::base::file_header::HEADER_LEN;
use crate::key_table::RecordPointer;

/// What is prefetched ahead in one file, at most; and the bytes that a file's part of a batch may
/// span for each byte of it, so that what stands between is worth its reading.
const AHEAD_BYTES: u64 = 1 << 20;
const AHEAD_SPREAD: u64 = 4;

/// Where a file is read on if the next batch spans in it what this one does, and how far; `None`
/// where too much stands between the records of `run`, which are sorted.
pub(super) fn ahead_of<W: AsRef<RecordPointer>>(run: &[W], forward: bool) -> Option<(u64, u64)> {
    let begin = run.first()?.as_ref().offset;
    let end = run.last()?.as_ref().end()?;
    let span = end.saturating_sub(begin);
    let bytes: u64 = run.iter().map(|it| u64::from(it.as_ref().len)).sum();
    let most = span.min(AHEAD_BYTES);
    let ahead = if forward {
        (end, most)
    } else {
        let from = begin.saturating_sub(most).max(HEADER_LEN as u64);
        (from, begin.saturating_sub(from))
    };
    (span <= bytes.saturating_mul(AHEAD_SPREAD)).then_some(ahead)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::keys::FileNumber;

    #[test]
    fn a_file_is_read_on_as_far_as_its_part_of_the_batch_spans() {
        let run = |offsets: &[u64], len| {
            let pointer = |offset: &u64| RecordPointer {
                file: FileNumber(1),
                offset: *offset,
                len,
            };
            offsets.iter().map(pointer).collect::<Vec<_>>()
        };
        let near = run(&[5000, 6000, 8000], 1000);
        assert_eq!(ahead_of(&near, true), Some((9000, 4000)));
        assert_eq!(ahead_of(&near, false), Some((1000, 4000)));
        // Nothing of what was read already, nor of the file's header.
        let header = HEADER_LEN as u64;
        let first = run(&[header + 20], 50);
        assert_eq!(ahead_of(&first, false), Some((header, 20)));
        let scattered = run(&[5000, 60_000], 1000);
        assert_eq!(ahead_of(&scattered, true), None);
        let long = run(&[0, 1 << 20], 1 << 20);
        assert_eq!(ahead_of(&long, true), Some((2 << 20, AHEAD_BYTES)));
        assert_eq!(ahead_of::<RecordPointer>(&[], true), None);
    }
}
