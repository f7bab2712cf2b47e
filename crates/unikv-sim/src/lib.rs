#![doc = "Oracle, history generator and explorers for UniKV, on the engine's public API alone."]
//!
//! - [`oracle`]: what the database must contain after any prefix of the writes, and which prefix
//!   it may not fall short of after a kill or a power cut.
//! - [`times`]: what time it is for the database, and what a crash may take of that.
//! - [`history`]: operations drawn from a seed, as data, so that a failing one can be replayed and
//!   cut down. [`config`] draws the options they run under, [`collide`] makes keys of equal hashes.
//! - [`runner`]: plays a history against an engine on a simulated disk and checks every answer.
//! - [`feed`]: copies that follow the changes of a database by their tokens.
//! - [`scenario`]: short histories, each aimed at one thing that the engine does.
//! - [`moments`]: the disk before each call that changes it, with what the oracle then allows.
//! - [`crash`], [`fault`]: a history with the power cut, or one error, at each place;
//!   [`aftermath`]: both.
//! - [`storm`]: a history in which errors of the disk come again and again.
//! - [`damage`]: small databases of every shape, each byte and each block of them damaged.
//! - [`salvage`]: a repair, and the verdict on what it saved.
//! - [`story`]: names the seed and the place when something fails; [`shrink`] cuts a history down.
//!
//! One failing check is a panic: this is a test tool, and the test harness is its caller.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test tool reports by panicking"
)]

pub mod aftermath;
pub mod budget;
pub mod collide;
pub mod config;
pub mod crash;
pub mod damage;
pub mod fault;
pub mod feed;
pub mod history;
pub mod moments;
pub mod oracle;
pub mod runner;
pub mod salvage;
pub mod scenario;
pub mod shrink;
pub mod spaces;
pub mod storm;
pub mod story;
pub mod times;
pub mod value;
pub mod verify;
