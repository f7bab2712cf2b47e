//! Workloads over key-value stores, with every value verified, and what they cost.
//!
//! [`engine::Engine`] is what a store has to offer; [`engines`] holds UniKV's adapter. A
//! [`run::plan::Plan`] names the phases of a run ([`workload`]); [`run::Runner`] drives them over
//! one engine; [`measure`] looks at clocks, counters, memory and files meanwhile; [`report`] says
//! what came out. `unikv ycsb` is a command over this, and so is the [`suite`] that compares
//! engines.

// A phase's report is one JSON object of many fields.
#![recursion_limit = "256"]

pub mod engine;
pub mod engines;
pub mod failure;
pub mod measure;
pub mod report;
pub mod run;
pub mod suite;
pub mod workload;

pub use engine::Engine;
pub use failure::Failure;
