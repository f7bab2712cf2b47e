//! Jobs that change which range of keys a partition has: each is one edit and moves no byte.

pub(crate) mod join;
pub(crate) mod split;
