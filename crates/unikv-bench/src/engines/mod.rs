//! The engines that this crate can measure by itself; the peers have a crate of their own.

pub mod btree;
pub mod unikv;
