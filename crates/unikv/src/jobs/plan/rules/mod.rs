//! The rules, a file each.

mod clear;
mod flush;
mod for_reads;
mod freeze;
mod join;
pub(crate) mod merge;
mod notes;
mod split;
mod warm;

pub(crate) use clear::CLEAR;
pub(crate) use flush::FLUSHES;
pub(crate) use for_reads::{KEY_BLOCKS, POINTER_INDEX};
pub(crate) use freeze::FREEZE_FOR_SPACE;
pub(crate) use join::{JOIN_BEFORE_MERGES, JOIN_LAST};
pub(crate) use notes::{CLOCK_NOTES, HINT_NOTES};
pub(crate) use split::SPLIT;
pub(crate) use warm::WARM_START;

use crate::jobs::plan::Facts;
use std::time::Duration;

fn never(_: &Facts<'_>) -> Option<Duration> {
    None
}
