//! To which keyspaces the salvaged records belong, and their names.
//!
//! What the manifest says is believed as far as it goes. A keyspace that it once knew and does not
//! list was dropped or emptied: nothing of it comes back. Of numbers that it cannot know, because
//! its end or all of it is lost, the records are saved, each number under a name made for it; they
//! are in doubt, for a drop may have been lost, too. A number above the last one that the manifest
//! knows shows that it has lost an edit, even where it looks whole.
//!
//! No locks.

use super::files::holes::Hole;
use super::files::trust::Known;
use super::report::{LostRange, RepairTrust, user_key};
use super::resolve::claims::Saved;
use crate::base::keys::{KEYSPACE_PREFIX_LEN, KeyspaceId};
use crate::engine::background::ingest::Ingest;
use crate::engine::handle::Handle;
use crate::engine::read::source::Source;
use crate::error::Result;
use crate::jobs::ingest::Content;
use crate::options::KeyspaceOptions;
use crate::version::keyspaces::{DEFAULT_NAME, Keyspaces};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::iter;
use std::path::Path;

/// What is known of keyspaces.
pub(super) struct KnownKeyspaces {
    listed: Keyspaces,
    /// The greatest number that they have had, as far as is known.
    last: u32,
    trust: RepairTrust,
}

/// What becomes of records with a keyspace's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    There,
    /// It may have been dropped.
    InDoubt,
    Gone,
}

impl KnownKeyspaces {
    pub(super) fn of(known: &Known) -> KnownKeyspaces {
        let version = known.version.as_ref();
        KnownKeyspaces {
            listed: version.map(|v| v.keyspaces.clone()).unwrap_or_default(),
            last: version.map_or(0, |version| version.counters.last_keyspace),
            trust: known.trust,
        }
    }

    /// What becomes of the records whose keys begin with this number.
    pub(super) fn standing(&self, data: KeyspaceId) -> Standing {
        let is_sure = self.trust == RepairTrust::Manifest;
        let is_listed = self.listed.holds(data);
        if is_listed && (is_sure || data == KeyspaceId::DEFAULT) {
            Standing::There
        } else if !is_listed && data.0 <= self.last {
            Standing::Gone
        } else {
            Standing::InDoubt
        }
    }

    /// Whether only an edit that is lost can have given this number.
    pub(super) fn is_unlisted(&self, data: KeyspaceId) -> bool {
        data.0 > self.last && !self.listed.holds(data)
    }

    /// The names of the keyspaces that are known.
    pub(super) fn listed_names(&self) -> Vec<String> {
        let listed = self.listed.all();
        listed.map(|meta| meta.name.clone()).collect()
    }

    /// The name in the new database of the keyspace that had this number.
    pub(super) fn name(&self, data: KeyspaceId) -> String {
        if data == KeyspaceId::DEFAULT {
            return DEFAULT_NAME.to_owned();
        }
        match self.listed.of_data(data) {
            Some(meta) => meta.name.clone(),
            None => self.made_up(data),
        }
    }

    /// A name that no listed keyspace has. Names made up for other numbers begin with theirs.
    fn made_up(&self, data: KeyspaceId) -> String {
        let plain = format!("recovered-{}", data.0);
        let numbered = (1..u32::MAX).map(|n| format!("{plain}-{n}"));
        let mut names = iter::once(plain.clone()).chain(numbered);
        let free = names.find(|name| self.listed.named(name).is_none());
        free.unwrap_or(plain)
    }

    /// What of a hole lies in keyspaces that are there, or may be: for each its name and a range of
    /// its keys. `unlisted`: the numbers that records have and no edit.
    pub(super) fn parts_of(&self, hole: &Hole, unlisted: &[KeyspaceId]) -> Vec<LostRange> {
        let within = hole.keyspaces();
        let listed = self.listed.all().map(|meta| meta.data);
        let ends = [
            Some(KeyspaceId::of(&hole.from)),
            hole.to.as_deref().map(KeyspaceId::of),
        ];
        let all = listed.chain(unlisted.iter().copied());
        let all = all.chain(ends.into_iter().flatten());
        let all = iter::once(KeyspaceId::DEFAULT).chain(all);
        let may_be = |data: &KeyspaceId| self.standing(*data) != Standing::Gone;
        let mut numbers: BTreeSet<_> = all.filter(|n| within.contains(n) && may_be(n)).collect();
        let next = KeyspaceId(self.last.saturating_add(1)).max(*within.start());
        if numbers.is_empty() && self.trust != RepairTrust::Manifest && within.contains(&next) {
            // If anything is lost there, then of a keyspace that nothing names.
            numbers.insert(next);
        }
        let ends_in = |data| hole.to.as_deref().filter(|to| KeyspaceId::of(to) == data);
        let part = |data: KeyspaceId| LostRange {
            keyspace: self.name(data),
            from: if data == *within.start() {
                user_key(&hole.from)
            } else {
                Bytes::new()
            },
            to: ends_in(data).map(user_key),
            missing: hole.missing,
            file: hole.path.clone(),
        };
        numbers.into_iter().map(part).collect()
    }

    /// Makes the keyspaces that are known, so that the empty ones are there, too.
    pub(super) fn make_all(&self, db: &Handle) -> Result<()> {
        for meta in self.listed.all() {
            self.make(db, meta.data)?;
        }
        Ok(())
    }

    /// The number in the new database of the keyspace that had the number `data`.
    pub(super) fn make(&self, db: &Handle, data: KeyspaceId) -> Result<KeyspaceId> {
        if data == KeyspaceId::DEFAULT {
            return Ok(KeyspaceId::DEFAULT);
        }
        let options = match self.listed.of_data(data) {
            Some(meta) => KeyspaceOptions::of(meta, Path::new(""))?,
            None => KeyspaceOptions::default(),
        };
        let keyspace = db.engine.keyspaces.open(&self.name(data), &options)?;
        let source = Source { keyspace, at: None };
        Ok(db.engine.read.point(source)?.data)
    }
}

/// Writes salvaged records to the new database.
pub(super) struct KeyspaceWriter<'a> {
    db: &'a Handle,
    /// The ingest of the keyspace with this old number, and its bytes.
    ingest: Option<(KeyspaceId, Ingest<'a>, u64)>,
}

/// One ingest takes this many bytes; the next goes on.
const INGEST_BYTES: u64 = 16 << 30;

impl<'a> KeyspaceWriter<'a> {
    pub(super) fn new(db: &'a Handle) -> KeyspaceWriter<'a> {
        KeyspaceWriter { db, ingest: None }
    }

    /// Takes the next record, in key order, of the keyspace with the old number `old`, which `new`
    /// finds in the new database.
    pub(super) fn add(
        &mut self,
        old: KeyspaceId,
        saved: &Saved,
        new: impl FnOnce() -> Result<KeyspaceId>,
    ) -> Result<()> {
        let goes_on =
            |(of, _, bytes): &(KeyspaceId, Ingest<'_>, u64)| *of == old && *bytes < INGEST_BYTES;
        if !self.ingest.as_ref().is_some_and(goes_on) {
            self.end()?;
            let begun = Ingest::begin(&self.db.engine.background, new()?)?;
            self.ingest = Some((old, begun, 0));
        }
        if let Some((_, ingest, bytes)) = &mut self.ingest {
            let key = saved.key.get(KEYSPACE_PREFIX_LEN..).unwrap_or_default();
            ingest.add_until(key, Content::Value(&saved.value), saved.expiry_ms)?;
            *bytes += (key.len() + saved.value.len()) as u64;
        }
        Ok(())
    }

    /// Commits what was taken.
    pub(super) fn end(&mut self) -> Result<()> {
        if let Some((_, ingest, _)) = self.ingest.take() {
            ingest.commit()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
