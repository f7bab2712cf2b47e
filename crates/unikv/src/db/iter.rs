//! Iteration over a range, from both ends (paper §III-F).
//!
//! An [`Iter`] holds one view and one sequence number: it shows one moment, whatever happens
//! meanwhile, and keeps the files of that moment on disk. Each end gathers visible entries in
//! batches that grow as it goes on, and fetches the values of a batch file by file, in the order of
//! their offsets, neighbours in one read.

mod end;

use super::engine::Engine;
use super::read::{DEFAULT_KEYSPACE, engine_key};
use crate::base::keys::SeqNo;
use crate::error::{Error, Result};
use crate::partition::View;
use crate::partition::view_cursor::ViewCursor;
use bytes::Bytes;
use end::End;
use std::sync::Arc;

/// An iterator over the entries of a range in key order; from the back with
/// [`Iterator::rev`] or [`DoubleEndedIterator::next_back`].
///
/// It shows the database as it was when it was made. An error ends the iteration.
pub struct Iter {
    view: Arc<View>,
    seq: SeqNo,
    /// Keeps the sequence number registered while a snapshot's iterator lives.
    _snapshot: Option<Arc<super::snapshot::Registered>>,
    /// The first engine key of the range.
    begin: Vec<u8>,
    /// The first engine key of what is left.
    lower: Vec<u8>,
    /// The first engine key behind what is left.
    upper: Vec<u8>,
    front: Option<End>,
    back: Option<End>,
    /// An error to be handed out next.
    error: Option<Error>,
    ended: bool,
}

impl Iter {
    pub(crate) fn new(
        engine: &Engine,
        view: Arc<View>,
        seq: SeqNo,
        snapshot: Option<Arc<super::snapshot::Registered>>,
        (lower, upper): (Vec<u8>, Vec<u8>),
    ) -> Iter {
        Iter {
            view,
            seq,
            _snapshot: snapshot,
            begin: lower.clone(),
            lower,
            upper,
            front: None,
            back: None,
            error: engine.check_open().err(),
            ended: false,
        }
    }

    /// Moves the front to the first entry of the range at or behind `key`, forward or back. Entries
    /// that the back has handed out stay gone.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        let lower = engine_key(DEFAULT_KEYSPACE, key.as_ref()).max(self.begin.clone());
        if lower < self.lower {
            // The back may have dropped entries because the front had handed them out.
            self.back = None;
        }
        self.lower = lower;
        self.front = None;
    }

    fn next_entry(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        let front = match &mut self.front {
            Some(front) => front,
            None => {
                let mut cursor = ViewCursor::new(Arc::clone(&self.view));
                cursor.seek(&self.lower, SeqNo::MAX)?;
                self.front.insert(End::new(cursor))
            }
        };
        if front.is_handed_out() {
            front.gather_forward(self.seq, &self.upper)?;
            front.fetch(&self.view)?;
        }
        let Some(key) = front.key().filter(|key| *key < &self.upper[..]) else {
            return Ok(None);
        };
        self.lower.clear();
        self.lower.extend_from_slice(key);
        self.lower.push(0);
        Ok(front.hand_out())
    }

    fn next_back_entry(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        let back = match &mut self.back {
            Some(back) => back,
            None => {
                let mut cursor = ViewCursor::new(Arc::clone(&self.view));
                cursor.seek_before(&self.upper, SeqNo::MAX)?;
                self.back.insert(End::new(cursor))
            }
        };
        if back.is_handed_out() {
            back.gather_backward(self.seq, &self.lower)?;
            back.fetch(&self.view)?;
        }
        let Some(key) = back.key().filter(|key| *key >= &self.lower[..]) else {
            return Ok(None);
        };
        self.upper.clear();
        self.upper.extend_from_slice(key);
        Ok(back.hand_out())
    }

    fn or_end(
        &mut self,
        next: impl FnOnce(&mut Iter) -> Result<Option<(Bytes, Bytes)>>,
    ) -> Option<Result<(Bytes, Bytes)>> {
        if let Some(error) = self.error.take() {
            self.ended = true;
            return Some(Err(error));
        }
        if self.ended || self.lower >= self.upper {
            return None;
        }
        let next = next(self);
        self.ended = next.is_err();
        next.transpose()
    }
}

impl Iterator for Iter {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.or_end(Iter::next_entry)
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.or_end(Iter::next_back_entry)
    }
}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter")
            .field("seq", &self.seq.0)
            .finish_non_exhaustive()
    }
}
