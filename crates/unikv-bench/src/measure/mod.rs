//! What is looked at while a phase runs, before and after it.

pub mod costs;
pub mod latency;
pub mod machine;
pub mod process;
pub mod progress;
pub mod quiet;
pub mod space;
pub mod trace;
