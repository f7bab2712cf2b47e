//! Where tokens stand in the history of a database that is open for writing, and its log as the
//! source of changes. No locks.

use super::follow::{Changes, ChangesOptions};
use super::source::{Look, Source, Verdict, is_off, position};
use super::token::ChangeToken;
use crate::base::keys::{FileNumber, SeqNo};
use crate::base::sync::atomic::Ordering;
use crate::engine::catalog::Catalog;
use crate::engine::core::Core;
use crate::engine::read::ReadState;
use crate::engine::write::WritePath;
use crate::engine::write::change_window::Place;
use crate::error::{Error, ErrorKind, Result};
use crate::log::LogReader;
use std::sync::Arc;
use std::time::Duration;

/// The component that reads changes.
pub(crate) struct ChangeFeed {
    core: Arc<Core>,
    read: Arc<ReadState>,
    write: Arc<WritePath>,
    /// The incarnations of this history, each with the last number before it.
    incarnations: Vec<(u64, SeqNo)>,
    catalog: Arc<Catalog>,
}

impl ChangeFeed {
    pub(crate) fn new(
        core: &Arc<Core>,
        read: &Arc<ReadState>,
        write: &Arc<WritePath>,
        catalog: &Arc<Catalog>,
    ) -> Arc<ChangeFeed> {
        let view = read.view.load();
        let history = view.version.counters.history.as_ref();
        Arc::new(ChangeFeed {
            core: Arc::clone(core),
            read: Arc::clone(read),
            write: Arc::clone(write),
            incarnations: history
                .map(|it| it.incarnations.clone())
                .unwrap_or_default(),
            catalog: Arc::clone(catalog),
        })
    }

    /// The incarnation that a token of now names, which a later opening knows. Nothing is written
    /// in an incarnation that is in no manifest yet.
    fn incarnation(&self) -> Option<u64> {
        let mut newest_first = self.incarnations.iter().rev();
        let newest = newest_first.next();
        let is_staying = self.catalog.is_staying();
        let before = newest_first.next().filter(|_| is_staying);
        before.or(newest).map(|(id, _)| *id)
    }

    /// The token of everything up to `seq`.
    pub(crate) fn token(&self, seq: SeqNo) -> Result<ChangeToken> {
        self.core.check_open()?;
        match self.incarnation() {
            Some(incarnation) => Ok(ChangeToken {
                incarnation,
                seq: seq.0,
            }),
            None => Err(is_off()),
        }
    }

    /// The token of now.
    pub(crate) fn token_of_now(&self) -> Result<ChangeToken> {
        self.token(self.visible())
    }

    /// The token after which all is kept that is.
    pub(crate) fn oldest_change_token(&self) -> Result<ChangeToken> {
        let view = self.read.view.load();
        let history = view.version.counters.history.as_ref();
        let from = history.map(|history| history.from).unwrap_or_default();
        self.token(from.max(self.write.wal_sync.window_from()))
    }

    fn visible(&self) -> SeqNo {
        SeqNo(self.read.visible_seq.load(Ordering::Acquire))
    }

    /// The changes after a token.
    pub(crate) fn since(
        self: &Arc<Self>,
        token: ChangeToken,
        options: ChangesOptions,
    ) -> Result<Changes> {
        self.core.check_open()?;
        let seq = position(&self.incarnations, token, self.visible())?;
        Changes::begin(Box::new(Writer(Arc::clone(self))), seq, options)
    }
}

/// The writer as the source of changes.
struct Writer(Arc<ChangeFeed>);

impl Source for Writer {
    fn core(&self) -> &Arc<Core> {
        &self.0.core
    }

    fn incarnation(&self) -> u64 {
        self.0.incarnation().unwrap_or_default()
    }

    fn look(&mut self, _read: SeqNo) -> Result<Look> {
        let visible = self.0.visible();
        let view = self.0.read.view.load_full();
        let counters = &view.version.counters;
        Ok(Look {
            visible,
            logged: visible,
            flushed: counters.flushed_seq,
            durable: SeqNo(0),
            last: SeqNo(0),
            history: counters.history.clone(),
        })
    }

    fn place(&mut self, seq: SeqNo, after: Option<FileNumber>) -> Result<(SeqNo, Option<Place>)> {
        Ok(self.0.write.wal_sync.place(seq, after))
    }

    fn has_ended(&self, _reader: &mut LogReader) -> Result<bool> {
        Ok(true)
    }

    fn is_same(&self) -> Result<bool> {
        Ok(true)
    }

    fn judge(&mut self, error: Error, read: SeqNo, place: Option<&Place>, _tries: u32) -> Verdict {
        let wal_sync = &self.0.write.wal_sync;
        let is_damage = matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io);
        let is_there = |place: &Place| wal_sync.place_of(place.number).1.is_some();
        let has_gone = read < wal_sync.window_from() || place.is_some_and(|it| !is_there(it));
        if is_damage && has_gone {
            Verdict::Gone
        } else {
            Verdict::Failed(error)
        }
    }

    fn refresh(&mut self) -> Result<()> {
        Ok(())
    }

    fn poll_period(&self) -> Option<Duration> {
        None
    }
}
