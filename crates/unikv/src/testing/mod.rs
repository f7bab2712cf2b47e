//! Helpers shared by the tests of several modules.

pub(crate) mod file_trace;
pub(crate) mod golden;
