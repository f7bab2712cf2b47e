//! How hard garbage presses, and what counts as garbage of a file.

use crate::base::file_header::HEADER_LEN;
use crate::record::RecordFile;

/// How hard space presses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// Much of the allowed garbage is there: reclaim if a merge passes by anyway.
    Riding,
    /// More of it is there: reclaim now. The rest is for what a pass writes before it can release
    /// its victims, and for what is deleted meanwhile.
    Alone,
}

impl Pressure {
    /// The share of the allowed garbage at which reclaiming begins.
    pub(crate) fn share(self) -> f64 {
        match self {
            Pressure::Riding => 0.4,
            Pressure::Alone => 0.6,
        }
    }
}

/// Bytes of a file's records.
pub(crate) fn record_bytes(file: &RecordFile) -> u64 {
    file.meta().records_end.saturating_sub(HEADER_LEN as u64)
}

/// The part of a file at which its key section makes it worth a pass.
const SECTION_PART: u64 = 16;

/// Bytes of a value log's key section and footer, if they are worth a pass that leaves them out.
/// Where keys are long beside their values the section takes as much as the garbage that is
/// allowed.
pub(crate) fn section_worth_a_pass(file: &RecordFile) -> u64 {
    let meta = file.meta();
    let bytes = meta.len.saturating_sub(record_bytes(file));
    if meta.key_section && bytes > meta.len / SECTION_PART {
        bytes
    } else {
        0
    }
}
