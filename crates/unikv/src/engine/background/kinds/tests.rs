//! A made-up kind of work, and what tests run by hand.

use super::collect::Collections;
use super::freeze::FreezeForSpace;
use super::join::{Effort, Joins};
use super::merge::Merges;
use super::split::Splits;
use crate::engine::background::Background;
use crate::engine::background::scheduler::JobKind;
use crate::error::Result;

pub(crate) fn with_made_up(kinds: Vec<&'static dyn JobKind>) -> Vec<&'static dyn JobKind> {
    kinds
}

impl Background {
    /// Merges, or collects garbage, if something is due. Whether anything was.
    pub(crate) fn merge_one(&self) -> Result<bool> {
        self.run_next_job(&[&FreezeForSpace, &Merges, &Collections])
    }

    pub(crate) fn split_one(&self) -> Result<bool> {
        self.run_next_job(&[&Splits])
    }

    pub(crate) fn join_one(&self, effort: Effort) -> Result<bool> {
        let with_merges = effort == Effort::Merges;
        self.run_next_job(&[&Joins { with_merges }])
    }
}
