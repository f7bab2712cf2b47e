//! The next record of a segment, whether or not it is known where the segment ends. No locks.

use crate::engine::write::change_window::Place;
use crate::error::{Error, Result};
use crate::log::{LogItem, LogReader, RECORD_HEADER_LEN};

/// A record of the log.
pub(super) struct Found<'a> {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) kind: u8,
    pub(super) payload: &'a [u8],
}

/// The next record of a segment whose end is known.
pub(super) fn within<'a>(reader: &'a mut LogReader, place: &Place) -> Result<Option<Found<'a>>> {
    match reader.next()? {
        LogItem::Record {
            offset,
            end,
            kind,
            payload,
            ..
        } => Ok(Some(Found {
            begin: offset,
            end,
            kind,
            payload,
        })),
        LogItem::Bad { offset, reason } => Err(torn(place, offset, reason)),
        LogItem::End { offset } if offset < place.end => {
            Err(torn(place, offset, "the log ends early"))
        }
        LogItem::End { .. } => Ok(None),
    }
}

/// The next record of a segment to which somebody may be writing, if it is whole.
pub(super) fn open_end(reader: &mut LogReader) -> Result<Option<Found<'_>>> {
    let record = reader.poll()?;
    Ok(record.map(|(kind, begin, payload)| Found {
        begin,
        end: begin + (RECORD_HEADER_LEN + payload.len()) as u64,
        kind,
        payload,
    }))
}

/// What stands at `offset` is no record.
pub(super) fn torn(place: &Place, offset: u64, reason: &str) -> Error {
    if place.is_recovered {
        Error::history_gone("a crash has taken a part of the log after the token")
    } else {
        Error::corruption(&place.path, offset, reason)
    }
}
