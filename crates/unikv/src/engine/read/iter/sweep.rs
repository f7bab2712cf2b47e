//! Sweeping over deletes: leaving gaps where nothing is visible before a reader steps over that.
//!
//! The first reader that comes to a long run of deletes would step over each of them, and over what
//! they hide in tables. A sweep does that in the background, over the range in which deletes have
//! come since the last one. It stops at each visible entry and goes on at a later delete of a
//! memtable: the later, the more often the run before was short. So it costs
//! one search for many deletes where keys between them are visible.
//!
//! Invariant: a sweep reads as any iterator does, and leaves gaps by the same rule
//! (`memtable/entries/gaps.rs`). It serves speed alone. No locks.

use super::Toward;
use super::end::End;
use super::toward::Left;
use crate::base::keys::SeqNo;
use crate::error::Result;
use crate::key_table::ReadBuffers;
use crate::partition::view_cursor::ViewCursor;
use crate::partition::{View, Visibility};
use std::sync::Arc;

/// Hidden entries after which a gap is left at once, and a batch counts as long.
const MOST_HIDDEN: u32 = 2048;
/// Batches after which a sweep gives way to other work.
const MOST_BATCHES: u32 = 16;
/// Deletes that are left out at most after short runs, and entries of a memtable that are passed
/// over for them.
const MOST_LEFT_OUT: usize = 256;
const MOST_PASSED: usize = 4096;
/// What a search costs, in steps.
const SEARCH_STEPS: u64 = 32;

/// How far a sweep has come.
pub(crate) struct Swept {
    /// Where the next one is to begin; `None`: it has come to the end, and left nothing.
    pub(crate) next_from: Option<Vec<u8>>,
    /// Whether it has come to the end. Then the rest is too short for a gap of its own.
    pub(crate) is_all: bool,
    /// What it took, in steps over entries, about.
    pub(crate) steps: u64,
}

/// Leaves gaps from `lower` to before `upper`, for a while.
pub(crate) fn sweep(
    view: &Arc<View>,
    at: Visibility,
    (lower, upper): (&[u8], &[u8]),
    buffers: &Arc<ReadBuffers>,
) -> Result<Swept> {
    let mut end = End::new(buffers);
    end.leave_values(true);
    end.stop_after_hidden(MOST_HIDDEN);
    let mut cursor = ViewCursor::new(Arc::clone(view));
    let (mut from, mut left_out, mut steps) = (lower.to_vec(), 0, 0);
    cursor.seek(&from, SeqNo::MAX)?;
    for _ in 0..MOST_BATCHES {
        let left = Left {
            lower: &from,
            upper,
        };
        end.expect(1);
        end.gather(&mut cursor, Toward::Upper, at, left, 1)?;
        let Some(visible) = end.key() else {
            steps += u64::from(MOST_HIDDEN);
            left_out = 0;
            match cursor.entry().filter(|entry| entry.key < upper) {
                Some(entry) => from = entry.key.to_vec(),
                None => return Ok(Swept::all(steps, Some(from))),
            }
            continue;
        };
        let (next, passed) = next_delete(view, visible, left_out);
        steps += SEARCH_STEPS + passed as u64;
        left_out = (2 * left_out + 1).min(MOST_LEFT_OUT);
        let Some(next) = next.filter(|next| next.as_slice() < upper) else {
            return Ok(Swept::all(steps, None));
        };
        from = next;
        end.anchor();
        cursor.seek(&from, SeqNo::MAX)?;
    }
    Ok(Swept {
        next_from: Some(from),
        is_all: false,
        steps,
    })
}

impl Swept {
    fn all(steps: u64, next_from: Option<Vec<u8>>) -> Swept {
        Swept {
            next_from,
            is_all: true,
            steps,
        }
    }
}

/// A key after `key` that is deleted in a memtable, after as many others that are left out, or one
/// before which [`MOST_PASSED`] entries were passed over; and how many were.
fn next_delete(view: &View, key: &[u8], left_out: usize) -> (Option<Vec<u8>>, usize) {
    let after = [key, &[0]].concat();
    let (mut first, mut all_passed) = (None::<Vec<u8>>, 0);
    for handle in view.memtables() {
        let mut entries = handle.table.iter();
        entries.seek(&after, SeqNo::MAX);
        let (mut passed, mut deletes) = (0, 0);
        while let Some(entry) = entries.entry() {
            deletes += usize::from(entry.is_delete());
            if deletes > left_out || passed == MOST_PASSED {
                let is_first = first.as_ref().is_none_or(|first| entry.key < &first[..]);
                if is_first {
                    first = Some(entry.key.to_vec());
                }
                break;
            }
            passed += 1;
            entries.next();
        }
        all_passed += passed;
    }
    (first, all_passed)
}
