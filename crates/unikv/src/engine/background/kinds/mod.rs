//! What each kind of job does. When one is due, a rule says (`jobs/plan`).

mod clear;
mod cluster;
mod collect;
pub(crate) mod flush;
mod for_reads;
pub(crate) mod join;
pub(crate) mod merge;
mod notes;
mod scan_merge;
pub(crate) mod split;
pub(crate) mod warm;

#[cfg(test)]
pub(crate) mod tests;
