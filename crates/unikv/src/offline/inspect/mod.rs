//! Looking into single files of a database, for a person: one view per kind of file.
//!
//! Reads only, and only the one file: it may be a copy, its directory may be gone, the database may
//! be open elsewhere (then what is being written shows as a torn end). What does not verify is
//! shown as a [`Part`] with a fault, and the walk goes on after it where that is possible. Files
//! are streamed; memory is bounded by the index of a key section and the largest record of a log.

mod edits;
mod hints;
mod logs;
mod tables;

use crate::base::file_header::{FileHeader, FileKind, HEADER_LEN, RawHeader};
use crate::base::keys::KEYSPACE_PREFIX_LEN;
use crate::error::{Error, Result};
use crate::key_table::range_section::RangeSection;
use crate::version::file_names::{self, FileName};
use crate::version::manifest;
use crate::vfs::{Access, Env, ReadFile};
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

/// Bytes of a key that are shown.
const SHOWN_KEY_BYTES: usize = 64;

/// A part of a file: a header, a record, an entry, or bytes that are none of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part {
    /// Where it begins.
    pub offset: u64,
    /// How many bytes it has.
    pub len: u64,
    /// What it is.
    pub what: &'static str,
    /// How deep it lies within the parts before it: an operation lies within its record.
    pub depth: u8,
    /// What it says, by name.
    pub fields: Vec<(&'static str, String)>,
    /// What is wrong with it.
    pub fault: Option<String>,
}

impl Part {
    fn new(what: &'static str, offset: u64, len: u64) -> Part {
        Part {
            offset,
            len,
            what,
            ..Part::default()
        }
    }

    fn within(mut self) -> Part {
        self.depth += 1;
        self
    }

    fn field(mut self, name: &'static str, value: impl Display) -> Part {
        self.fields.push((name, value.to_string()));
        self
    }

    fn faulty(mut self, fault: impl Display) -> Part {
        self.fault = Some(fault.to_string());
        self
    }
}

/// What a walk over a file saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// What kind of file it is.
    pub kind: &'static str,
    /// Its length in bytes.
    pub len: u64,
    /// Parts seen.
    pub parts: u64,
    /// Parts with a fault.
    pub faults: u64,
}

/// Walks over the file at `path` and hands each part to `visit`.
///
/// # Errors
/// `Io` if the file cannot be read, `Incompatible` if it is none of a database. What is damaged is
/// no error.
pub fn inspect(path: impl AsRef<Path>, visit: &mut dyn FnMut(&Part)) -> Result<Inspection> {
    Env::os().inspect(path, visit)
}

impl Env {
    /// Walks over a file, as [`inspect`] does. Errors as there.
    pub fn inspect(
        &self,
        path: impl AsRef<Path>,
        visit: &mut dyn FnMut(&Part),
    ) -> Result<Inspection> {
        walk(self, path.as_ref(), visit)
    }
}

fn walk(env: &Env, path: &Path, visit: &mut dyn FnMut(&Part)) -> Result<Inspection> {
    let io = |e| Error::io("read this file", path, e);
    let file = env.vfs.open(path, Access::Sequential).map_err(io)?;
    let len = file.len().map_err(io)?;
    let mut bytes = vec![0; HEADER_LEN.min(usize::try_from(len).unwrap_or(HEADER_LEN))];
    let got = file.read_at(&mut bytes, 0).map_err(io)?;
    bytes.truncate(got);
    let raw = RawHeader::decode(&bytes);
    let Some(kind) = kind_of(raw.as_ref(), path) else {
        let what = "this is no file of a database";
        return Err(Error::incompatible(path, what, "name a file of a database"));
    };
    if kind == FileKind::Export {
        let what = format!("{} is an export, and no file of a database", path.display());
        return Err(Error::invalid(
            what,
            "verify it with `unikv import --verify`",
        ));
    }
    let mut walk = Walk {
        env,
        path,
        kind,
        len,
        visit,
        seen: Inspection {
            kind: kind_name(kind),
            len,
            ..Inspection::default()
        },
    };
    walk.header(&bytes, raw.as_ref());
    match kind {
        FileKind::Current => walk.current(&file)?,
        FileKind::Wal | FileKind::Manifest => walk.log(raw.as_ref())?,
        FileKind::Record | FileKind::KeyTable => {
            if let Some(raw) = &raw {
                walk.table(raw)?;
            }
        }
        FileKind::CacheHints => walk.hints(),
        FileKind::Export => {}
        FileKind::Visible => walk.page(),
    }
    Ok(walk.seen)
}

/// A walk over one file.
struct Walk<'a> {
    env: &'a Env,
    path: &'a Path,
    kind: FileKind,
    len: u64,
    visit: &'a mut dyn FnMut(&Part),
    seen: Inspection,
}

impl Walk<'_> {
    fn show(&mut self, part: &Part) {
        self.seen.parts += 1;
        self.seen.faults += u64::from(part.fault.is_some());
        (self.visit)(part);
    }

    fn header(&mut self, bytes: &[u8], raw: Option<&RawHeader>) {
        let mut part = Part::new("file header", 0, bytes.len() as u64);
        if let Some(raw) = raw {
            let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
            part = part
                .field("kind", kind_name(self.kind))
                .field("format version", raw.format_version)
                .field("number", raw.number.0)
                .field("uid", format!("{:016x}", raw.uid.0))
                .field("database", hex(&raw.database.0))
                .field("required features", format!("{:#x}", raw.required_features))
                .field("optional features", format!("{:#x}", raw.optional_features))
                .field("checksum algorithm", raw.checksum_algorithm)
                .field("magic", if raw.has_magic { "right" } else { "WRONG" })
                .field("checksum", verdict(raw.checksum_fits));
        }
        if let Err(error) = FileHeader::decode(bytes, self.kind, None, self.path) {
            part = part.faulty(error);
        }
        self.show(&part);
    }

    /// The words mean something to those alone who have them mapped.
    fn page(&mut self) {
        let offset = HEADER_LEN as u64;
        let rest = self.len.saturating_sub(offset);
        self.show(&Part::new("unused", offset, rest));
    }

    fn current(&mut self, file: &Arc<dyn ReadFile>) -> Result<()> {
        let mut bytes = vec![0; HEADER_LEN + 64];
        let got = file.read_at(&mut bytes, 0);
        let got = got.map_err(|e| Error::io("read this file", self.path, e))?;
        bytes.truncate(got);
        let offset = HEADER_LEN as u64;
        let part = Part::new("pointer", offset, self.len.saturating_sub(offset));
        let part = match manifest::decode_current(&bytes, self.path) {
            Ok(current) => part
                .field("manifest", file_names::manifest(current.number))
                .field("manifest uid", format!("{:016x}", current.uid.0))
                .field("checksum", verdict(true)),
            Err(error) => part.faulty(error),
        };
        self.show(&part);
        Ok(())
    }
}

/// What kind of file it is: by its header if that is whole, else by its name.
fn kind_of(raw: Option<&RawHeader>, path: &Path) -> Option<FileKind> {
    let by_header = raw.filter(|raw| raw.has_magic && raw.checksum_fits);
    if let Some(raw) = by_header {
        return match raw.kind {
            1 => Some(FileKind::Current),
            2 => Some(FileKind::Manifest),
            3 => Some(FileKind::Wal),
            4 => Some(FileKind::Record),
            5 => Some(FileKind::KeyTable),
            6 => Some(FileKind::CacheHints),
            7 => Some(FileKind::Export),
            8 => Some(FileKind::Visible),
            _ => None,
        };
    }
    match file_names::parse(path.file_name()?.to_str()?)? {
        FileName::Current | FileName::Temp => Some(FileKind::Current),
        FileName::Manifest(_) => Some(FileKind::Manifest),
        FileName::Wal(_) => Some(FileKind::Wal),
        FileName::Record(_) => Some(FileKind::Record),
        FileName::KeyTable(_) => Some(FileKind::KeyTable),
        FileName::CacheHints | FileName::CacheHintsTemp => Some(FileKind::CacheHints),
        FileName::Visible | FileName::VisibleTemp => Some(FileKind::Visible),
        FileName::Lock
        | FileName::Ballast
        | FileName::Repairing
        | FileName::Spill(_)
        | FileName::Stats
        | FileName::StatsTemp => None,
    }
}

fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Current => "CURRENT",
        FileKind::Manifest => "manifest",
        FileKind::Wal => "write-ahead log",
        FileKind::Record => "record file",
        FileKind::KeyTable => "key table",
        FileKind::CacheHints => "cache hints",
        FileKind::Export => "export",
        FileKind::Visible => "page of visible numbers",
    }
}

fn verdict(fits: bool) -> &'static str {
    if fits { "right" } else { "WRONG" }
}

/// What is known of the range deletes of a record file.
fn ranges_text(ranges: &RangeSection) -> String {
    format!(
        "{} at {}, {} to before {}, sequence numbers {} to {}",
        ranges.count,
        ranges.offset,
        key_text(&ranges.start),
        key_text(&ranges.end),
        ranges.min_seq.0,
        ranges.max_seq.0,
    )
}

/// A key as a person reads it, with its keyspace where that is not the first.
fn key_text(engine_key: &[u8]) -> String {
    let (keyspace, key) = match engine_key.split_first_chunk::<KEYSPACE_PREFIX_LEN>() {
        Some((keyspace, key)) => (u32::from_be_bytes(*keyspace), key),
        None => (0, engine_key),
    };
    let shown = key.get(..SHOWN_KEY_BYTES).unwrap_or(key);
    let more = match key.len() - shown.len() {
        0 => String::new(),
        more => format!("… ({more} bytes more)"),
    };
    let keyspace = match keyspace {
        0 => String::new(),
        id => format!("keyspace {id}: "),
    };
    format!("{keyspace}\"{}\"{more}", shown.escape_ascii())
}

#[cfg(test)]
mod tests;
