//! The two ways through a range, and where each of them begins.

use crate::base::keys::SeqNo;
use crate::error::Result;
use crate::partition::view_cursor::ViewCursor;
use crate::partition::{View, Visibility};
use std::sync::Arc;

/// Which way an end of an iteration goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Toward {
    Upper,
    Lower,
}

impl Toward {
    pub(super) fn other(self) -> Toward {
        match self {
            Toward::Upper => Toward::Lower,
            Toward::Lower => Toward::Upper,
        }
    }
}

/// What is left of a range: engine keys from `lower` to before `upper`.
#[derive(Clone, Copy)]
pub(super) struct Left<'a> {
    pub(super) lower: &'a [u8],
    pub(super) upper: &'a [u8],
}

impl<'a> Left<'a> {
    /// Where a gap ends that an iteration this way begins with.
    pub(super) fn known_gap(self, view: &View, toward: Toward, at: Visibility) -> Option<Vec<u8>> {
        match toward {
            Toward::Upper => view.end_of_gap(self.lower, at),
            Toward::Lower => view.start_of_gap(self.upper, at),
        }
    }

    /// Leaves out a gap with which it begins.
    pub(super) fn pass(&mut self, toward: Toward, gap: Option<&'a [u8]>) {
        match toward {
            Toward::Upper => self.lower = gap.unwrap_or(self.lower),
            Toward::Lower => self.upper = gap.unwrap_or(self.upper),
        }
    }

    /// Whether an entry this way is still in it.
    #[inline(always)]
    pub(super) fn holds(self, key: &[u8], toward: Toward) -> bool {
        match toward {
            Toward::Upper => key < self.upper,
            Toward::Lower => key >= self.lower,
        }
    }

    /// What of it comes before `key`.
    pub(super) fn before(self, key: &'a [u8]) -> Left<'a> {
        Left { upper: key, ..self }
    }

    /// What of it is at or after `key`.
    pub(super) fn after(self, key: &'a [u8]) -> Left<'a> {
        Left { lower: key, ..self }
    }

    /// A cursor at its first entry this way.
    pub(super) fn begin(self, view: &Arc<View>, toward: Toward) -> Result<ViewCursor> {
        let mut cursor = ViewCursor::new(Arc::clone(view));
        match toward {
            Toward::Upper => cursor.seek(self.lower, SeqNo::MAX)?,
            Toward::Lower => cursor.seek_before(self.upper, SeqNo::MAX)?,
        }
        Ok(cursor)
    }
}
