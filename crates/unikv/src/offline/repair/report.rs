//! What a repair found, saved and lost, for the caller to read.
//!
//! Lists are bounded, counts are not.

mod text;

use crate::base::keys::{KEYSPACE_PREFIX_LEN, KeyspaceId};
use crate::log::TailCut;
use bytes::Bytes;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

/// Entries of each list, at most.
pub(super) const MOST_LISTED: usize = 1000;
/// Faults that are listed of one file.
const MOST_FAULTS: usize = 100;

/// Numbers of keyspaces in a note.
const MOST_NUMBERS: usize = 20;

/// What showed a repair which files make up the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairTrust {
    /// The manifest, whole.
    Manifest,
    /// The beginning of the manifest, and the files for what came after it.
    ManifestPrefix,
    /// The files alone.
    #[default]
    Files,
}

/// What [`Db::repair`](crate::Db::repair) found, saved and lost.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// What showed which files make up the database.
    pub trust: RepairTrust,
    /// Where the salvaged database is; `None` after a dry run.
    pub written: Option<PathBuf>,
    /// Each file of the damaged directory that was looked at.
    pub files: Vec<RepairedFile>,
    /// The keyspaces of the salvaged database beside the default one, or after a dry run those that
    /// it would have. One of which only the number is known is called `recovered-` with it, and
    /// with another number after it where a keyspace has that name; all its records are in doubt.
    pub keyspaces: Vec<String>,
    /// How many keyspaces have records and no entry in the manifest: it has lost the edits that
    /// made them.
    pub unlisted_keyspaces: u64,
    /// Records of the salvaged database.
    pub saved: u64,
    /// Bytes of their keys and values.
    pub saved_bytes: u64,
    /// Keys whose newest version is a delete; they are not written.
    pub tombstones: u64,
    /// Saved records of which a newer version, or a delete, may have been lost.
    pub in_doubt: u64,
    /// Keys that are known and whose newest value is lost.
    pub lost: u64,
    /// The first of them.
    pub lost_keys: Vec<LostKey>,
    /// Ranges of keys in which records may be missing that nothing names any more.
    pub lost_ranges: Vec<LostRange>,
    /// How many such ranges there are.
    pub lost_range_count: u64,
    /// Keys with a record that may have been in force, or may have been deleted or overwritten.
    pub uncertain: u64,
    /// The first of them.
    pub uncertain_keys: Vec<UncertainKey>,
    /// Whether these records were written, as the caller asked for.
    pub uncertain_included: bool,
    /// What the write-ahead log held.
    pub log: RepairedLog,
    /// Whether the options of the database were found and hold in the new one.
    pub options_carried: bool,
    /// The caller's commit tag that was carried over; see
    /// [`Batch::set_commit_tag`](crate::Batch::set_commit_tag).
    pub commit_tag: Option<Bytes>,
    /// What is worth knowing beside.
    pub notes: Vec<String>,
    /// How long it took.
    pub elapsed: Duration,
    /// Where each file is in `files`.
    places: HashMap<String, usize>,
}

/// A file of the damaged directory.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RepairedFile {
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Records, entries, batches or edits that verified.
    pub items: u64,
    /// The first places that did not.
    pub faults: Vec<RepairFault>,
    /// How many such places there are.
    pub fault_count: u64,
    /// Why nothing of the file was used, if that is so.
    pub ignored: Option<String>,
}

/// A damaged place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairFault {
    /// Where.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
}

/// A key whose newest value is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostKey {
    /// Its keyspace, as the salvaged database names it; `default` for the default one.
    pub keyspace: String,
    /// The key.
    pub key: Bytes,
    /// The file that held the value.
    pub file: PathBuf,
    /// Where in it.
    pub offset: u64,
}

/// A key with a record that may have been in force, or may have been deleted or overwritten.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UncertainKey {
    /// Its keyspace, as the salvaged database names it; `default` for the default one.
    pub keyspace: String,
    /// The key.
    pub key: Bytes,
}

/// A range of keys of which something may be missing. Where several keyspaces are concerned there
/// is a range for each.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostRange {
    /// The keyspace, as the salvaged database names it; `default` for the default one.
    pub keyspace: String,
    /// No lesser key is concerned.
    pub from: Bytes,
    /// Nor is a greater one; `None`: there is no bound.
    pub to: Option<Bytes>,
    /// How many records or keys of the file are missing, where it is known: in this range and its
    /// other ones.
    pub missing: Option<u64>,
    /// The file that held them.
    pub file: PathBuf,
}

/// What became of the write-ahead log.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RepairedLog {
    /// Segments read.
    pub segments: u64,
    /// Batches that no table held yet, and that were replayed.
    pub batches: u64,
    /// Of these, the batches after a gap: an earlier batch may be missing.
    pub batches_behind_gaps: u64,
    /// Batches of which a part is lost, and that were left out whole (or, if the caller asked for
    /// it, written in part).
    pub batches_dropped: u64,
    /// Where batches are lost.
    pub gaps: Vec<LogGap>,
    /// The torn end of the log, which opening would cut as well.
    pub cut: Option<TailCut>,
}

/// A place in the log at which batches are lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogGap {
    /// The segment.
    pub file: PathBuf,
    /// Where it begins.
    pub offset: u64,
    /// How many bytes there are, if it ends.
    pub bytes: Option<u64>,
    /// Sequence numbers of what is lost lie above this one.
    pub after_seq: u64,
    /// And below this one, if anything follows.
    pub before_seq: Option<u64>,
    /// What was found.
    pub what: String,
}

impl RepairReport {
    /// Whether all that the database held is in the salvaged one, as it was.
    pub fn is_complete(&self) -> bool {
        let doubts = self.in_doubt + self.uncertain + self.unlisted_keyspaces;
        self.lost + self.lost_range_count + doubts + self.log.batches_dropped == 0
            && self.log.gaps.is_empty()
    }

    /// The entry of the file `name`.
    pub(super) fn file(&mut self, name: &str) -> &mut RepairedFile {
        let at = match self.places.get(name) {
            Some(at) => *at,
            None => {
                self.places.insert(name.to_owned(), self.files.len());
                self.files.push(RepairedFile {
                    name: name.to_owned(),
                    ..RepairedFile::default()
                });
                self.files.len() - 1
            }
        };
        &mut self.files[at]
    }

    pub(super) fn add_range(&mut self, range: LostRange) {
        self.lost_range_count += 1;
        if self.lost_ranges.len() < MOST_LISTED {
            self.lost_ranges.push(range);
        }
    }

    /// Adds a key of the keyspace `keyspace`.
    pub(super) fn add_lost(
        &mut self,
        keyspace: String,
        key: &[u8],
        (file, offset): (PathBuf, u64),
    ) {
        self.lost += 1;
        if self.lost_keys.len() < MOST_LISTED {
            self.lost_keys.push(LostKey {
                keyspace,
                key: user_key(key),
                file,
                offset,
            });
        }
    }

    /// As [`RepairReport::add_lost`].
    pub(super) fn add_uncertain(&mut self, keyspace: String, key: &[u8]) {
        self.uncertain += 1;
        if self.uncertain_keys.len() < MOST_LISTED {
            let key = user_key(key);
            self.uncertain_keys.push(UncertainKey { keyspace, key });
        }
    }

    /// Notes that the manifest does not know the keyspaces with these numbers.
    pub(super) fn add_unlisted(&mut self, unlisted: &[KeyspaceId]) {
        self.unlisted_keyspaces = unlisted.len() as u64;
        let listed = unlisted.iter().take(MOST_NUMBERS);
        let numbers: Vec<String> = listed.map(|data| data.0.to_string()).collect();
        if !numbers.is_empty() {
            let more = if unlisted.len() > MOST_NUMBERS {
                " and others"
            } else {
                ""
            };
            let numbers = numbers.join(", ");
            self.notes.push(format!(
                "the edits of the manifest that made the keyspaces with the numbers {numbers}{more} \
                 are lost: what they held is in doubt, and their names are made up"
            ));
        }
    }
}

impl RepairedFile {
    pub(super) fn fault(&mut self, offset: u64, what: impl Into<String>) {
        self.fault_count += 1;
        if self.faults.len() < MOST_FAULTS {
            let what = what.into();
            self.faults.push(RepairFault { offset, what });
        }
    }
}

/// The user's part of an engine key.
pub(super) fn user_key(key: &[u8]) -> Bytes {
    Bytes::copy_from_slice(key.get(KEYSPACE_PREFIX_LEN..).unwrap_or_default())
}
