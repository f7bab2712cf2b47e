//! Jobs that write key tables and value logs again: merges, garbage collection, clustering, and
//! merges of keys for scans. What a pass is for decides what it takes in.

pub(crate) mod cluster;
mod copy_dictionary;
pub(crate) mod gc;
pub(crate) mod key_tables;
pub(crate) mod left_alone;
pub(crate) mod merge;
mod merge_output;
pub(crate) mod moved_values;
pub(crate) mod parts;
pub(crate) mod retention;
pub(crate) mod scan_merge;
pub(crate) mod together;
