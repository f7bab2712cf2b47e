//! What the flush worker does: flushes, and what must not wait for a long job.

pub(crate) mod disk;
pub(crate) mod flush;
pub(crate) mod lend;
pub(crate) mod settle;
