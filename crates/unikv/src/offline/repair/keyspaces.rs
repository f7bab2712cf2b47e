//! To which keyspaces the salvaged records belong, and their names.
//!
//! What the manifest says is believed as far as it goes. A keyspace that it once knew and does not
//! list was dropped or emptied: nothing of it comes back. Of numbers that it cannot know, because
//! its end or all of it is lost, the records are saved, each number under a name made for it; they
//! are in doubt, for a drop may have been lost, too.
//!
//! No locks.

use super::files::trust::Known;
use super::report::{RepairReport, RepairTrust};
use crate::base::keys::KeyspaceId;
use crate::engine::background::ingest::Ingest;
use crate::engine::handle::Handle;
use crate::engine::read::source::Source;
use crate::error::Result;
use crate::options::KeyspaceOptions;
use crate::version::keyspaces::Keyspaces;
use bytes::Bytes;
use std::path::Path;

/// What is known of keyspaces.
#[derive(Clone)]
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
        match self.listed.holds(data) {
            true if is_sure || data == KeyspaceId::DEFAULT => Standing::There,
            true => Standing::InDoubt,
            false if is_sure || data.0 <= self.last => Standing::Gone,
            false => Standing::InDoubt,
        }
    }

    fn name_and_options(&self, data: KeyspaceId) -> Result<(String, KeyspaceOptions)> {
        match self.listed.of_data(data) {
            Some(meta) => {
                let options = KeyspaceOptions::decode(&meta.options, Path::new(""))?;
                Ok((meta.name.clone(), options))
            }
            None => Ok((format!("recovered-{}", data.0), KeyspaceOptions::default())),
        }
    }

    /// Makes the keyspaces that are known, so that the empty ones are there, too.
    pub(super) fn make_all(&self, db: &Handle, report: &mut RepairReport) -> Result<()> {
        for meta in self.listed.all() {
            self.make(db, meta.data, report)?;
        }
        Ok(())
    }

    /// The number in the new database of the keyspace that had the number `data`.
    pub(super) fn make(
        &self,
        db: &Handle,
        data: KeyspaceId,
        report: &mut RepairReport,
    ) -> Result<KeyspaceId> {
        if data == KeyspaceId::DEFAULT {
            return Ok(KeyspaceId::DEFAULT);
        }
        let (name, options) = self.name_and_options(data)?;
        if !report.keyspaces.contains(&name) {
            report.keyspaces.push(name.clone());
        }
        let keyspace = db.engine.keyspaces.open(&name, &options)?;
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
        key: &[u8],
        value: &Bytes,
        new: impl FnOnce() -> Result<KeyspaceId>,
    ) -> Result<()> {
        let goes_on =
            |(of, _, bytes): &(KeyspaceId, Ingest<'_>, u64)| *of == old && *bytes < INGEST_BYTES;
        if !self.ingest.as_ref().is_some_and(goes_on) {
            self.end()?;
            let begun = Ingest::begin(&self.db.engine.background, new()?, None)?;
            self.ingest = Some((old, begun, 0));
        }
        if let Some((_, ingest, bytes)) = &mut self.ingest {
            ingest.add(key, Some(value))?;
            *bytes += (key.len() + value.len()) as u64;
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
