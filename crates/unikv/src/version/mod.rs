//! What the database consists of: its files, the edits that change it, and the manifest in which
//! the edits are committed.

mod apply;
pub(crate) mod edit;
pub(crate) mod file_names;
mod generation;
mod ingested;
pub(crate) mod keyspaces;
pub(crate) mod manifest;
mod memory;
mod range;
pub(crate) mod scan_run;
mod scan_runs;
pub(crate) mod state;
pub(crate) mod tagged;

pub(crate) use apply::ApplyContext;
pub(crate) use generation::{Generation, Table, all_within};
pub(crate) use range::KeyRange;
pub(crate) use state::{Counters, Listed, Partition, Version};
