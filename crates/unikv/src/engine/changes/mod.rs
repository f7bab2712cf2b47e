//! The change feed: what was written, in order, from the log while the change window keeps it
//! (`docs/changes.md`).
//!
//! Invariants:
//! - A reader of the feed sees what is visible and, unless it asks for more, durable: a power cut
//!   takes nothing of it. A write whose append or sync failed is seen only once an opening has
//!   recovered it.
//! - What it sees has no gap; else it gets [`HistoryGone`](crate::ErrorKind::HistoryGone).
//! - A token of an incarnation before this one holds up to the last number that the two, and all
//!   between them, have in common.
//!
//! No locks of its own; it takes that of the log's segments, which is held over syncs.

mod decode;
mod feed;
mod follow;
mod records;
mod source;
mod token;

pub use decode::{Change, ChangeKind, ChangeOp, KeyspaceChange};
pub(crate) use feed::ChangeFeed;
pub use follow::{Changes, ChangesOptions};
pub(crate) use source::{Look, Source, Verdict, is_off, position};
pub use token::ChangeToken;

#[cfg(test)]
pub(crate) mod tests;
