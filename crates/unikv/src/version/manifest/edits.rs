//! Reading the edits of a manifest. They are kept as they were read: decoded they take several
//! times the memory, and they are applied one after the other.

use super::{KIND_EDIT, KIND_POINT, RecoveredManifest};
use crate::error::{Error, ErrorKind, Result};
use crate::log::{DurablePoint, LogItem, LogReader, TailCut};
use crate::version::edit::VersionEdit;
use std::path::{Path, PathBuf};

/// Edits in their order. Each has its bytes to itself: one buffer for all would be copied whenever
/// it grows, and take three times their length then.
#[derive(Debug, Default)]
pub(crate) struct Edits(Vec<Stored>);

#[derive(Debug)]
struct Stored {
    bytes: Box<[u8]>,
    /// Where it stands in the manifest.
    offset: u64,
}

impl Stored {
    fn decode(&self, manifest: &Path) -> Result<VersionEdit> {
        VersionEdit::decode(&self.bytes, manifest, self.offset)
    }
}

impl Edits {
    /// Appends an edit that has been decoded once.
    pub(super) fn push(&mut self, payload: &[u8], offset: u64) {
        let bytes = Box::from(payload);
        self.0.push(Stored { bytes, offset });
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Decodes them one by one.
    pub(crate) fn iter<'a>(
        &'a self,
        manifest: &'a Path,
    ) -> impl Iterator<Item = Result<VersionEdit>> + 'a {
        self.0.iter().map(|edit| edit.decode(manifest))
    }

    /// The same, and each is forgotten when the next is asked for: a long manifest takes memory
    /// only until what it says does.
    pub(crate) fn into_iter(self, manifest: &Path) -> impl Iterator<Item = Result<VersionEdit>> {
        self.0.into_iter().map(|edit| edit.decode(manifest))
    }
}

/// Reads all edits from `log`, a manifest from its beginning.
pub(super) fn read(log: &mut LogReader, path: PathBuf) -> Result<RecoveredManifest> {
    let (mut edits, mut edits_before) = (Edits::default(), None);
    let bad = loop {
        match log.next()? {
            LogItem::Record {
                offset,
                kind,
                payload,
                ..
            } => match kind {
                KIND_EDIT => {
                    let edit = VersionEdit::decode(payload, &path, offset)?;
                    edits_before.get_or_insert(edit.edits_before.unwrap_or(0));
                    edits.push(payload, offset);
                }
                KIND_POINT => {}
                _ => {
                    let what = format!("manifest record kind {kind} is unknown");
                    let remedy = "open it with the newer release that wrote it";
                    return Err(Error::incompatible(&path, what, remedy));
                }
            },
            LogItem::End { .. } => break None,
            LogItem::Bad { offset, reason } => break Some((offset, reason)),
        }
    };
    let end = log.offset();
    let cut = match bad {
        Some((offset, reason)) => Some(judge(log, &path, offset, reason)?),
        None => None,
    };
    let Some(edits_before) = edits_before else {
        let what = "the manifest has lost its first edit, which was durable";
        return Err(Error::corruption(&path, end, what));
    };
    let edit_count = edits_before + edits.len() as u64;
    Ok(RecoveredManifest {
        database: log.database(),
        path,
        edits,
        cut,
        edit_count,
        end,
    })
}

/// As [`read`], but damage is no error: the edits before it, and what it is. `None` if not even the
/// first edit can be read.
pub(super) fn read_prefix(
    log: &mut LogReader,
    path: PathBuf,
) -> Result<Option<(RecoveredManifest, Option<String>)>> {
    let (mut edits, mut edits_before) = (Edits::default(), None);
    let (mut damage, mut end) = (None, log.offset());
    let bad = loop {
        match log.next()? {
            LogItem::Record {
                offset,
                kind,
                payload,
                ..
            } => match kind {
                KIND_EDIT => match VersionEdit::decode(payload, &path, offset) {
                    Ok(edit) => {
                        edits_before.get_or_insert(edit.edits_before.unwrap_or(0));
                        edits.push(payload, offset);
                    }
                    Err(error) if error.kind() == ErrorKind::Corruption => {
                        damage = Some(error.to_string());
                        break None;
                    }
                    Err(error) => return Err(error),
                },
                KIND_POINT => {}
                _ => {
                    let what = format!("manifest record kind {kind} is unknown");
                    let remedy = "open it with the newer release that wrote it";
                    return Err(Error::incompatible(&path, what, remedy));
                }
            },
            LogItem::End { .. } => break None,
            LogItem::Bad { offset, reason } => break Some((offset, reason)),
        }
        end = log.offset();
    };
    let mut cut = None;
    if let Some((offset, reason)) = bad {
        match judge(log, &path, offset, reason) {
            Ok(torn) => cut = Some(torn),
            Err(error) if error.kind() == ErrorKind::Corruption => damage = Some(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    let database = log.database();
    Ok(edits_before.map(|edits_before| {
        let recovered = RecoveredManifest {
            database,
            path,
            edit_count: edits_before + edits.len() as u64,
            edits,
            cut,
            end,
        };
        (recovered, damage)
    }))
}

/// The tail rule: a bad place below a durable point is corruption, above it the log ends.
fn judge(log: &mut LogReader, path: &Path, offset: u64, reason: &'static str) -> Result<TailCut> {
    while log.resync()? {
        while matches!(log.next()?, LogItem::Record { .. }) {}
    }
    let covered = |point: DurablePoint| point.covers(log.number(), offset);
    if log.greatest_point().is_some_and(covered) {
        return Err(Error::corruption(path, offset, reason));
    }
    Ok(TailCut {
        path: path.to_owned(),
        offset,
        bytes: log.file_len().saturating_sub(offset),
        reason: reason.to_owned(),
    })
}
