//! Helpers shared by the tests of several modules.

pub(crate) mod file_trace;
pub(crate) mod golden;
#[cfg(all(test, unikv_model = "loom"))]
pub(crate) mod loom_model;
#[cfg(all(test, unikv_model = "shuttle"))]
pub(crate) mod shuttle_model;
