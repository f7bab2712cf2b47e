//! Copies of a database that follow its changes, each by its token.
//!
//! When a copy has applied all changes that there are, it must hold what the database holds: keys,
//! values, expiry, keyspaces and the commit tag. A token is refused with `HistoryGone` only where
//! what comes after it is not kept any more, or a power cut has taken writes that its copy knows
//! of; a copy that has seen durable changes alone never knows of such writes.
//!
//! Of an ingest the range is read as it is now. So between that and the end of the changes a copy
//! holds more than its token says ([`Copy::is_ahead`]), and what it has read so may not be durable
//! before the next sync.

use crate::oracle::{Ending, State};
use crate::spaces;
use crate::times::{self, Times};
use crate::value::Bytes;
use crate::verify::{same_pairs, scan};
use std::collections::BTreeMap;
use std::sync::Arc;
use unikv::{
    Change, ChangeKind, ChangeOp, ChangeToken, Changes, ChangesOptions, Db, ErrorKind, Keyspace,
    KeyspaceChange,
};

/// Of each keyspace by its number, the name and what it holds.
type Spaces = BTreeMap<u32, (String, State)>;

/// A copy that follows.
#[derive(Clone, Debug)]
pub struct Copy {
    /// Everything up to this has been applied.
    pub token: ChangeToken,
    /// Whether it is shown what a power cut may take.
    pub unsynced: bool,
    /// It holds something that comes after its token.
    pub is_ahead: bool,
    /// The database was opened without a window since, which has forgotten the history.
    pub is_forgotten: bool,
    /// The latest time at which it has read values themselves. A crash may take the time back, and
    /// values return that had expired by then, which it has never seen.
    read_ms: u64,
    spaces: Spaces,
    commit_tag: Option<Bytes>,
}

/// What came of following.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// This many changes were applied, and there are no more.
    On(u64),
    /// What comes after the token is not kept.
    Gone,
}

/// The copies of a run.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    /// One that is shown everything at once, and follows closely.
    pub eager: Option<Arc<Copy>>,
    /// One that is shown what is durable.
    pub durable: Option<Arc<Copy>>,
    /// Such a one that has not followed for a while.
    pub late: Option<Arc<Copy>>,
    /// Since a power cut, logs of the window may lack what tables have.
    pub was_cut: bool,
}

/// Whether a database keeps no changes.
pub fn is_off(db: &Db) -> bool {
    matches!(db.change_token(), Err(error) if error.kind() == ErrorKind::InvalidArgument)
}

fn all_spaces(db: &Db) -> impl Iterator<Item = (u32, String, Keyspace)> {
    let names = db.keyspaces().into_iter();
    names.filter_map(|name| {
        let keyspace = db.find_keyspace(&name)?;
        Some((keyspace.number().ok()?, name, keyspace))
    })
}

/// The time of the database; 0 where it does not matter.
fn time(db: &Db, matters: bool) -> u64 {
    if matters { times::time_of(db) } else { 0 }
}

fn contents(db: &Db, with_expiries: bool) -> unikv::Result<Spaces> {
    let contents = all_spaces(db).map(|(number, name, keyspace)| {
        let held = spaces::content_of(db, &keyspace, scan, with_expiries)?;
        Ok((number, (name, held)))
    });
    contents.collect()
}

impl Copy {
    /// A copy of what there is now.
    ///
    /// # Errors
    /// As those of scans.
    pub fn begin(db: &Db, unsynced: bool, with_expiries: bool) -> unikv::Result<Copy> {
        let (token, spaces) = (db.change_token()?, contents(db, with_expiries)?);
        Ok(Copy {
            token,
            unsynced,
            is_ahead: false,
            is_forgotten: false,
            read_ms: time(db, with_expiries),
            spaces,
            commit_tag: db.commit_tag().map(|commit_tag| commit_tag[..].into()),
        })
    }

    /// Its changes from its token on.
    ///
    /// # Errors
    /// As `changes_with`.
    pub fn changes(&self, db: &Db) -> unikv::Result<Changes> {
        let options = ChangesOptions::default().include_unsynced(self.unsynced);
        db.changes_with(self.token, options)
    }

    /// Applies all changes that there are. `may_lack`: it may be refused although the window begins
    /// before its token.
    ///
    /// # Errors
    /// As `try_next`, but for `HistoryGone`.
    pub fn follow(
        &mut self,
        db: &Db,
        held: &mut Option<Changes>,
        with_expiries: bool,
        may_lack: bool,
    ) -> unikv::Result<Followed> {
        match self.apply_all(db, held, with_expiries) {
            Err(error) if error.kind() == ErrorKind::HistoryGone => {
                let oldest = db.oldest_change_token()?;
                assert!(
                    self.is_forgotten || may_lack || self.token.seq() < oldest.seq(),
                    "{} is refused, but the window begins at {oldest}: {error}",
                    self.token
                );
                Ok(Followed::Gone)
            }
            Err(error) => Err(error),
            Ok(seen) => {
                assert!(!self.is_forgotten, "{} was forgotten", self.token);
                self.is_ahead &= !self.unsynced;
                Ok(Followed::On(seen))
            }
        }
    }

    fn apply_all(
        &mut self,
        db: &Db,
        held: &mut Option<Changes>,
        with_expiries: bool,
    ) -> unikv::Result<u64> {
        let mut changes = match held.take() {
            Some(changes) => changes,
            None => self.changes(db)?,
        };
        let mut seen = 0;
        while let Some(change) = changes.try_next()? {
            assert!(
                change.token.seq() > self.token.seq(),
                "{} comes after {}",
                change.token,
                self.token
            );
            assert_eq!(changes.token(), change.token);
            self.apply(db, &change, with_expiries)?;
            self.token = change.token;
            seen += 1;
        }
        *held = Some(changes);
        Ok(seen)
    }

    fn apply(&mut self, db: &Db, change: &Change, with_expiries: bool) -> unikv::Result<()> {
        match &change.kind {
            ChangeKind::Write(ops) => ops.iter().for_each(|op| self.apply_op(op)),
            ChangeKind::Ingest {
                keyspace,
                first,
                last,
            } => {
                let range = (&first[..], &last[..]);
                self.read_again(db, *keyspace, range, with_expiries)?;
            }
            ChangeKind::Keyspace(change) => self.apply_to_keyspaces(change),
            what => panic!("a change of a kind that is not known: {what:?}"),
        }
        if let Some(commit_tag) = &change.commit_tag {
            self.commit_tag = Some(commit_tag[..].into());
        }
        Ok(())
    }

    fn apply_op(&mut self, op: &ChangeOp) {
        let (number, change): (u32, &dyn Fn(&mut State)) = match op {
            ChangeOp::Put {
                keyspace,
                key,
                value,
                expires_ms,
            } => (*keyspace, &|held| {
                let value = Bytes::from(&value[..]).until(*expires_ms);
                held.insert(key.to_vec(), value);
            }),
            ChangeOp::Delete { keyspace, key } => (*keyspace, &|held| {
                held.remove(&key[..]);
            }),
            ChangeOp::DeleteRange {
                keyspace,
                start,
                end,
            } => (*keyspace, &|held| {
                let is_before_end = |key: &[u8]| end.as_ref().is_none_or(|end| *key < end[..]);
                held.retain(|key, _| key[..] < start[..] || !is_before_end(key));
            }),
            op => panic!("an operation of a kind that is not known: {op:?}"),
        };
        // What is written to a keyspace that is gone is gone with it.
        if let Some((_, held)) = self.spaces.get_mut(&number) {
            change(held);
        }
    }

    fn apply_to_keyspaces(&mut self, change: &KeyspaceChange) {
        match change {
            KeyspaceChange::Created { number, name } => {
                let old = self.spaces.insert(*number, (name.clone(), State::new()));
                assert!(old.is_none(), "the number {number} is given twice");
            }
            KeyspaceChange::Renamed { number, name } => {
                let space = self.spaces.get_mut(number);
                space.expect("it is there").0.clone_from(name);
            }
            KeyspaceChange::Truncated { number, now } => {
                let (name, _) = self.spaces.remove(number).expect("it is there");
                self.spaces.insert(*now, (name, State::new()));
            }
            KeyspaceChange::Dropped { number } => {
                self.spaces.remove(number).expect("it is there");
            }
            KeyspaceChange::Options { number } => assert!(self.spaces.contains_key(number)),
            change => panic!("a change of a kind that is not known: {change:?}"),
        }
    }

    /// Something was ingested: what its range holds now takes the place of what was there.
    fn read_again(
        &mut self,
        db: &Db,
        number: u32,
        (first, last): (&[u8], &[u8]),
        with_expiries: bool,
    ) -> unikv::Result<()> {
        self.is_ahead = true;
        let Some((_, held)) = self.spaces.get_mut(&number) else {
            return Ok(());
        };
        let now = all_spaces(db).find(|(found, _, _)| *found == number);
        let mut read = State::new();
        if let Some((_, _, keyspace)) = now {
            read = scan(keyspace.range(first..=last))?;
            let time_ms = time(db, with_expiries);
            for (key, value) in read.iter_mut().filter(|_| with_expiries) {
                let ttl = keyspace.ttl(key)?;
                value.expiry_ms = ttl.and_then(|ttl| spaces::expiry(ttl, time_ms));
            }
        }
        held.retain(|key, _| key[..] < *first || key[..] > *last);
        held.extend(read);
        self.read_ms = self.read_ms.max(time(db, with_expiries));
        Ok(())
    }

    /// It holds what the database does.
    ///
    /// # Errors
    /// As those of scans.
    pub fn assert_same(&self, what: &str, db: &Db, times: &Times) -> unikv::Result<()> {
        let want = contents(db, times.matters)?;
        // What has expired by another clock than this opening's may be gone, or it did not show.
        let read_ms = self.read_ms.max(times.destroyed_ms);
        let time_ms = read_ms.max(time(db, times.matters));
        let names = |spaces: &Spaces| -> Vec<(u32, String)> {
            let named = spaces.iter();
            named.map(|(id, (name, _))| (*id, name.clone())).collect()
        };
        assert_eq!(names(&self.spaces), names(&want), "{what}: the keyspaces");
        for (number, (name, held)) in &self.spaces {
            let got = times::visible(held, time_ms);
            let want = times::visible(&want[number].1, time_ms);
            same_pairs(&format!("{what}, {name}"), &got, &want);
            let ends = |state: &State| state.values().map(|it| it.expiry_ms).collect::<Vec<_>>();
            assert_eq!(ends(&got), ends(&want), "{what}, {name}: when it expires");
        }
        let commit_tag = db.commit_tag();
        assert_eq!(
            self.commit_tag.as_deref(),
            commit_tag.as_deref(),
            "{what}: the mark"
        );
        Ok(())
    }
}

impl Copies {
    /// All that there are.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Option<Arc<Copy>>> {
        [&mut self.eager, &mut self.durable, &mut self.late].into_iter()
    }

    /// A recovered database takes the tokens of all, or has good reason for refusing them. Returns
    /// how many have gone on.
    ///
    /// # Errors
    /// As reading changes, and scans.
    pub fn verify(&self, db: &Db, times: &Times, ending: Ending) -> unikv::Result<u64> {
        if is_off(db) {
            return Ok(0);
        }
        let mut gone_on = 0;
        let was_cut = self.was_cut || ending == Ending::PowerCut;
        for copy in [&self.eager, &self.durable, &self.late] {
            let Some(mut copy) = copy.as_deref().cloned() else {
                continue;
            };
            let last = db.change_token()?;
            let may_know_more = copy.unsynced && was_cut || copy.is_forgotten;
            assert!(
                may_know_more || copy.token.seq() <= last.seq(),
                "{} was shown as durable, and there is nothing after {last}",
                copy.token
            );
            // What was recovered is not durable yet in the eyes of the feed.
            copy.unsynced = true;
            let is_mixed = copy.is_ahead && was_cut;
            let followed = copy.follow(db, &mut None, times.matters, was_cut)?;
            if let (Followed::On(_), false) = (followed, is_mixed) {
                copy.assert_same("a copy after an opening", db, times)?;
                gone_on += 1;
            }
        }
        Ok(gone_on)
    }
}

/// Tokens that know of writes which a database does not have.
#[derive(Debug)]
pub struct Lost(Vec<ChangeToken>);

impl Copies {
    /// The tokens that know of more than this database has.
    pub fn lost(&self, db: &Db) -> Lost {
        let Ok(last) = db.change_token() else {
            return Lost(Vec::new());
        };
        let all = [&self.eager, &self.durable, &self.late];
        let tokens = all.into_iter().flatten().map(|copy| copy.token);
        Lost(tokens.filter(|token| token.seq() > last.seq()).collect())
    }
}

impl Lost {
    /// They are refused although their numbers have been given again.
    pub fn assert_refused(&self, db: &Db) {
        for token in &self.0 {
            let refused = db.changes_since(*token).err().map(|error| error.kind());
            let expected = Some(ErrorKind::HistoryGone);
            assert_eq!(refused, expected, "{token} knows of what is lost");
        }
    }
}
