//! What is read: one of the engine's readers, and how each of them is asked.

use crate::boundary::args::Held;
use crate::boundary::errors::Fault;
use crate::transaction::Open;
use std::sync::Arc;
use unikv::{Cursor, Db, Iter, ReadOptions};

/// What is read.
pub(crate) enum Source {
    Db(Db),
    Keyspace(unikv::Keyspace),
    Snapshot(Held<unikv::Snapshot>),
    Secondary(Held<unikv::Secondary>),
    Transaction(Arc<Open>),
    /// A keyspace in a transaction.
    Both(Arc<Open>, unikv::Keyspace),
}

/// Reads from whatever it is: `read!(source, from => from.get(key)?)` is a `Result<_, Fault>`.
macro_rules! read {
    ($source:expr, $from:ident => $do:expr) => {
        match $source {
            Source::Db($from) => Ok::<_, Fault>($do),
            Source::Keyspace($from) => Ok($do),
            Source::Snapshot(held) => {
                let $from = &held.get()?;
                Ok($do)
            }
            Source::Secondary(held) => {
                let $from = &held.get()?;
                Ok($do)
            }
            Source::Transaction(open) => {
                let open = open.lock();
                let $from = open.get()?;
                Ok($do)
            }
            Source::Both(open, keyspace) => {
                let open = open.lock();
                let $from = open.get()?.keyspace(keyspace);
                Ok($do)
            }
        }
    };
}

pub(super) use read;

impl Source {
    pub(crate) fn iter(&self, options: &ReadOptions) -> Result<Iter, Fault> {
        read!(self, from => from.iter_with(options))
    }

    pub(crate) fn cursor(&self, options: &ReadOptions) -> Result<Cursor, Fault> {
        read!(self, from => from.cursor_with(options))
    }
}

/// A snapshot of what is read. A transaction has none: the error says `what` and a remedy.
pub(crate) fn moment(
    source: &Source,
    what: &str,
    remedy: &'static str,
) -> Result<unikv::Snapshot, Fault> {
    Ok(match source {
        Source::Db(db) => db.snapshot(),
        Source::Keyspace(keyspace) => keyspace.snapshot(),
        Source::Snapshot(held) => held.get()?,
        Source::Secondary(held) => held.get()?.snapshot(),
        Source::Transaction(_) | Source::Both(..) => return Err(Fault::invalid(what, remedy)),
    })
}

/// What an iterator reads that has to begin walks again, which is not to change meanwhile.
pub(crate) fn snapshot_of(source: &Source) -> Result<Source, Fault> {
    let what = "a transaction has no iterator that moves both ways";
    let snapshot = moment(source, what, "use items() with reverse, or raw_iterator()")?;
    Ok(Source::Snapshot(Held::new(snapshot, "iterator")))
}
