//! What each kind of job does. When one is due, a rule says (`jobs/plan`).

mod clear;
mod clock;
pub(crate) mod flush;
mod for_reads;
pub(crate) mod join;
pub(crate) mod merge;
mod scan_merge;
pub(crate) mod split;

#[cfg(test)]
pub(crate) mod tests;
