//! Following what changes.

use crate::db::Db;
use crate::db::secondary::Secondary;
use crate::engine::changes::{ChangeToken, Changes, ChangesOptions};
use crate::error::Result;

impl Db {
    /// What has changed after `token`, in all keyspaces, in the order of the writes: each batch
    /// once and whole, with its commit tag. Later changes follow as they are made. For caches,
    /// replicas and indexes elsewhere.
    ///
    /// Only what is durable is shown, as after [`Db::sync`] or a write with
    /// [`Durability::Sync`](crate::Durability::Sync), so that no reader of the feed knows what a
    /// power cut has taken; [`Db::changes_with`] can show the rest, too.
    ///
    /// The changes come from the log, of which [`Options::change_window_bytes`] says how much is
    /// kept. A reader of the feed that begins takes a token, reads the database through a snapshot,
    /// and then the changes after the token. What it has read twice does no harm: a change says
    /// what is there after it.
    ///
    /// [`Options::change_window_bytes`]: crate::Options::change_window_bytes
    ///
    /// # Errors
    /// `HistoryGone` if the changes after the token are not kept any more, or the token knows of
    /// writes that this database does not have: of another database, or lost in a crash.
    /// `InvalidArgument` if the database keeps no changes; `Closed`.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("unikv-changes-{}", std::process::id()));
    /// use unikv::{ChangeOp, Db, Options, ChangeKind};
    ///
    /// let db = Db::open(&dir, Options::default().change_window_bytes(64 << 20))?;
    /// let mut changes = db.changes_since(db.change_token()?)?;
    /// db.put("apple", "red")?;
    /// assert_eq!(changes.try_next()?, None, "it is not durable");
    /// db.sync()?;
    /// let change = changes.try_next()?.expect("a change");
    /// let ChangeKind::Write(ops) = change.kind else { panic!() };
    /// assert!(matches!(&ops[..], [ChangeOp::Put { key, .. }] if key == "apple"));
    /// // Stored, it is where another process goes on.
    /// let token = change.token.to_string();
    /// # db.close()?;
    /// # Db::destroy(&dir)?;
    /// # unikv::Result::Ok(())
    /// ```
    pub fn changes_since(&self, token: ChangeToken) -> Result<Changes> {
        self.changes_with(token, ChangesOptions::default())
    }

    /// As [`Db::changes_since`], as `options` say. Errors as there.
    pub fn changes_with(&self, token: ChangeToken, options: ChangesOptions) -> Result<Changes> {
        self.0.engine.changes.since(token, options)
    }

    /// The token after which all changes are kept that are kept at all. Errors as
    /// [`Db::change_token`].
    pub fn oldest_change_token(&self) -> Result<ChangeToken> {
        self.0.engine.changes.oldest_change_token()
    }

    /// The token of all that is visible now. What is written later comes after it.
    ///
    /// # Errors
    /// `InvalidArgument` if the database keeps no changes; `Closed`.
    pub fn change_token(&self) -> Result<ChangeToken> {
        self.0.engine.changes.token_of_now()
    }
}

impl Secondary {
    /// What has changed after `token`, as [`Db::changes_since`], of a database that another process
    /// may write. It makes no writer wait.
    ///
    /// [`Changes::try_next`] gives what comes up to the state that is shown. Refresh to have more:
    /// [`Changes::next_timeout`] and [`Changes::wait_next`] do so, and again every 20 ms. When the
    /// writer has gone, or another one has come, nothing is given before the next refresh.
    ///
    /// Only what is durable is shown: what tables hold, what the writer has synced, and what the
    /// log says of itself where there is no writer. What a process that was killed has left in the
    /// log unsynced is shown once the next one has put it into tables.
    ///
    /// Tokens are those of [`Db`]. One that is ahead of what is shown has it refreshed.
    ///
    /// # Errors
    /// As [`Db::changes_since`], and those of [`Secondary::refresh`].
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("unikv-beside-{}", std::process::id()));
    /// use unikv::{ChangeKind, ChangeOp, Db, Options, SecondaryOptions};
    ///
    /// let db = Db::open(&dir, Options::default().change_window_bytes(64 << 20))?;
    ///
    /// // Mostly in another process.
    /// let secondary = Db::open_secondary(&dir, SecondaryOptions::default())?;
    /// let mut changes = secondary.changes_since(secondary.change_token()?)?;
    /// db.put("apple", "red")?;
    /// db.sync()?;
    /// let change = changes.wait_next()?;
    /// let ChangeKind::Write(ops) = change.kind else { panic!() };
    /// assert!(matches!(&ops[..], [ChangeOp::Put { key, .. }] if key == "apple"));
    /// # drop((changes, secondary));
    /// # db.close()?;
    /// # Db::destroy(&dir)?;
    /// # unikv::Result::Ok(())
    /// ```
    pub fn changes_since(&self, token: ChangeToken) -> Result<Changes> {
        self.changes_with(token, ChangesOptions::default())
    }

    /// As [`Secondary::changes_since`], as `options` say. Errors as there.
    pub fn changes_with(&self, token: ChangeToken, options: ChangesOptions) -> Result<Changes> {
        self.follow().changes(token, options)
    }

    /// The token after which all changes are kept that are kept at all. Errors as
    /// [`Secondary::change_token`], and `Io` and `Corruption` of the log.
    pub fn oldest_change_token(&self) -> Result<ChangeToken> {
        self.follow().oldest_change_token()
    }

    /// The token of all that is shown now. What is shown later comes after it.
    ///
    /// # Errors
    /// `InvalidArgument` if the database keeps no changes; `Forked`.
    pub fn change_token(&self) -> Result<ChangeToken> {
        self.follow().change_token()
    }
}
