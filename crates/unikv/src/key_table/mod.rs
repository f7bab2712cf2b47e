//! (placeholder)
pub(crate) mod meta;
