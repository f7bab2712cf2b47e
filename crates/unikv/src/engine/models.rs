//! The whole engine under shuttle: writers, readers and callers of everything else beside the
//! background, on tiny limits, each schedule drawn from a seed. See
//! [`crate::testing::shuttle_model`].
//!
//! **Oracle.** Each writer writes in turn to its pairs of keys, both keys of a pair in one batch
//! (or one ingest), with the number of its write as the value; every fifth write deletes them.
//! Before and after each write it notes its number. So what a read may answer is bounded: no write
//! that was acknowledged before the read may be missing, none that had not begun may be seen. And
//! whatever shows a moment (a snapshot, an iterator, a `multi_get`, a disk after a crash) must show
//! of each writer the state after one number of its writes, whole.

mod oracle;
mod scenarios;
mod transactions;
mod world;
