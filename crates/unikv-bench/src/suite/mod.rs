//! The benchmark suite: experiments as data, engines side by side, one report.
//!
//! [`experiments`] lists what is measured, and [`expand`] makes it as large as asked for. [`drive`]
//! runs each experiment over each engine, one process per engine and step ([`child`]), inside a
//! memory cgroup where one can be made, and [`html`] draws what [`results`] holds. A
//! [`contender::Contender`] is an engine with its settings; the peers bring their own, and call the
//! same [`command`]. [`floor`] says what no engine can pass.

pub mod child;
pub mod command;
pub mod contender;
pub mod drive;
pub mod expand;
pub mod experiments;
pub mod floor;
pub mod html;
pub mod results;
