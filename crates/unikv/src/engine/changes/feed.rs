//! Where tokens stand in this history. No locks.

use super::token::ChangeToken;
use crate::base::keys::SeqNo;
use crate::base::seeded::seeded;
use crate::base::sync::atomic::Ordering;
use crate::engine::catalog::Catalog;
use crate::engine::core::Core;
use crate::engine::read::ReadState;
use crate::engine::write::WritePath;
use crate::error::{Error, Result};
use std::sync::Arc;

/// The component that reads changes.
pub(crate) struct ChangeFeed {
    pub(super) core: Arc<Core>,
    pub(super) read: Arc<ReadState>,
    pub(super) write: Arc<WritePath>,
    /// The incarnations of this history, each with the last number before it.
    pub(super) incarnations: Vec<(u64, SeqNo)>,
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
    pub(super) fn incarnation(&self) -> Option<u64> {
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

    pub(super) fn visible(&self) -> SeqNo {
        SeqNo(self.read.visible_seq.load(Ordering::Acquire))
    }

    /// Where a reader of the feed with this token goes on.
    pub(super) fn position(&self, token: ChangeToken) -> Result<SeqNo> {
        self.core.check_open()?;
        if self.incarnations.is_empty() {
            return Err(is_off());
        }
        let at = self
            .incarnations
            .iter()
            .position(|(id, _)| *id == token.incarnation);
        let Some(at) = at else {
            return Err(Error::history_gone(
                "the token is of another incarnation of the database",
            ));
        };
        let seq = SeqNo(token.seq);
        // What one crash has left, a later one may have taken: nothing made it durable.
        let mut later = self.incarnations.iter().skip(at + 1);
        let common = if seeded!(OnlyNextIncarnation) {
            later.next().map(|(_, common)| *common)
        } else {
            later.map(|(_, common)| *common).min()
        };
        let common = common.unwrap_or_else(|| self.visible());
        if seq > common {
            let what = format!(
                "the database has only the first {} of the {} writes that the token knows of: a \
                 crash has taken the others",
                common.0, seq.0
            );
            return Err(Error::history_gone(what));
        }
        Ok(seq)
    }
}

fn is_off() -> Error {
    let what = "the database keeps no changes: `change_window_bytes` is 0";
    Error::invalid(
        what,
        "open it with a `change_window_bytes` of some MiB or more",
    )
}
