//! What the database consists of: its files, the edits that change it, and the manifest in which
//! the edits are committed.

pub(crate) mod edit;
pub(crate) mod file_names;
pub(crate) mod manifest;
mod state;
mod tagged;

pub(crate) use state::{ApplyContext, Counters, Dropped, Generation, Live, Partition, Version};
