//! Where a reader of the feed reads: what there is of the log, up to where, and what of it may be
//! shown. The writer of a database is one such source, a secondary the other.
//!
//! Invariants, which a source keeps and [`Changes`](super::Changes) relies on:
//! - What comes after the number that [`Source::place`] returns is in the places that follow one
//!   another, and in the history of the last [`Look`]: in order, without a gap, batches whole.
//! - A look is taken before the places that are read by it. The log has each of its records up to
//!   [`Look::logged`] whole by then; of what follows nothing is shown.
//! - Nothing of [`Look::durable`], of what is flushed or below [`Place::durable`] is lost in a
//!   power cut.
//! - A segment has a uid, to which all of its records are bound. One that was written over is never
//!   read as what it was; [`Source::judge`] says whether its changes are gone.

use super::token::ChangeToken;
use crate::base::keys::{FileNumber, SeqNo};
use crate::base::seeded::seeded;
use crate::engine::core::Core;
use crate::engine::write::change_window::Place;
use crate::error::{Error, Result};
use crate::log::LogReader;
use crate::version::edit::history::History;
use std::sync::Arc;
use std::time::Duration;

/// What may be shown at one moment.
pub(crate) struct Look {
    pub(crate) visible: SeqNo,
    /// Up to here the records of the log are visible.
    pub(crate) logged: SeqNo,
    /// Up to here tables have everything.
    pub(crate) flushed: SeqNo,
    /// Up to here records of the log are known to be durable, wherever they stand.
    pub(crate) durable: SeqNo,
    /// The last write that the log is known to have: it does not end before it.
    pub(crate) last: SeqNo,
    pub(crate) history: Option<Arc<History>>,
}

/// What an error of reading means.
pub(crate) enum Verdict {
    /// The window has passed what was to be read.
    Gone,
    /// Files have moved on: what is there now may be read.
    Again,
    /// The log has moved on so far that the next refresh has to say what is kept of it.
    Later,
    Failed(Error),
}

/// See the module.
pub(crate) trait Source: Send + Sync {
    fn core(&self) -> &Arc<Core>;

    /// The incarnation of which the numbers are.
    fn incarnation(&self) -> u64;

    /// What may be shown now to a reader that has seen everything up to `read`.
    ///
    /// # Errors
    /// `HistoryGone` if these numbers are no longer those of this history.
    fn look(&mut self, read: SeqNo) -> Result<Look>;

    /// For a reader that has seen everything up to `seq`: after which number everything is kept,
    /// and the segment that has what comes next, or the one that follows the segment `after`.
    fn place(&mut self, seq: SeqNo, after: Option<FileNumber>) -> Result<(SeqNo, Option<Place>)>;

    /// The same of a segment by its number, if it is there.
    fn place_of(&mut self, seq: SeqNo, number: FileNumber) -> Result<(SeqNo, Option<Place>)> {
        let before = FileNumber(number.0.saturating_sub(1));
        let (from, place) = self.place(seq, Some(before))?;
        Ok((from, place.filter(|place| place.number == number)))
    }

    /// Whether the segment that `reader` has open has ended where it stands, and was not written
    /// over meanwhile. Asked of open ends alone.
    fn has_ended(&self, reader: &mut LogReader) -> Result<bool>;

    /// Whether what was read since the last look is of the history that was looked at.
    fn is_same(&self) -> Result<bool>;

    /// What `error` means to a reader that has seen everything up to `read`, and has read at
    /// `place`. `tries`: how often it was asked to read again.
    fn judge(&mut self, error: Error, read: SeqNo, place: Option<&Place>, tries: u32) -> Verdict;

    /// Looks whether there is more than the last look had.
    fn refresh(&mut self) -> Result<()>;

    /// How long to wait before that is worth it. `None`: an event says so.
    fn poll_period(&self) -> Option<Duration>;
}

/// The number after which a reader of the feed with `token` goes on, if all up to `visible` is
/// visible.
///
/// # Errors
/// `HistoryGone` if the token is of another history, `InvalidArgument` if none is kept.
pub(crate) fn position(
    history: &[(u64, SeqNo)],
    token: ChangeToken,
    visible: SeqNo,
) -> Result<SeqNo> {
    if history.is_empty() {
        return Err(is_off());
    }
    let at = history.iter().position(|(id, _)| *id == token.incarnation);
    let Some(at) = at else {
        return Err(Error::history_gone(
            "the token is of another incarnation of the database",
        ));
    };
    let seq = SeqNo(token.seq);
    // What one crash has left, a later one may have taken: nothing made it durable.
    let mut later = history.iter().skip(at + 1).map(|(_, common)| *common);
    let common = if seeded!(OnlyNextIncarnation) {
        later.next()
    } else {
        later.min()
    };
    let common = common.unwrap_or(visible);
    if seq > common {
        let what = format!(
            "the database has only the first {} of the {} writes that the token knows of: a crash \
             has taken the others",
            common.0, seq.0
        );
        return Err(Error::history_gone(what));
    }
    Ok(seq)
}

pub(crate) fn gone() -> Error {
    Error::history_gone("the changes after the token are not kept any more")
}

pub(crate) fn is_off() -> Error {
    let what = "the database keeps no changes: `change_window_bytes` is 0";
    Error::invalid(
        what,
        "open it with a `change_window_bytes` of some MiB or more",
    )
}
