//! Space on disk: what deleted and superseded records keep of it, and what happens when it is used
//! up.

pub(crate) mod disk_full;
pub(crate) mod tombstone_debt;
