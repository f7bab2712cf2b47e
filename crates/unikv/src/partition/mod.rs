//! Reading one consistent view of the store: memtables, UnsortedStore, SortedStore.
//!
//! Nothing here takes a lock that a job holds. A [`View`] is immutable but for the newest memtable,
//! which only grows; readers bound it with a sequence number that they read *after* the view.

mod counters;
pub(crate) mod cursor;
mod find;
mod hidden;
pub(crate) mod large_files;
pub(crate) mod merging;
pub(crate) mod prefetch;
pub(crate) mod scan_sources;
pub(crate) mod sorted_store;
pub(crate) mod unsorted_store;
pub(crate) mod value_place;
pub(crate) mod view;
pub(crate) mod view_cursor;
pub(crate) mod visibility;

pub(crate) use counters::ReadCounters;
pub(crate) use hidden::gaps::SteppedOver;
pub(crate) use large_files::LargeFiles;
pub(crate) use view::{MemtableHandle, View};
pub(crate) use visibility::{Horizon, Moment, Visibility};
