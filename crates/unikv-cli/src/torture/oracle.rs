//! What the database must hold: one version number per key, of which only the thread that owns the
//! key writes any.
//!
//! The number changes when the write has been acknowledged. So a read by the owner must find
//! exactly it. A read by another thread finds a version between the number before the read and one
//! more than the number after it.
//!
//! With a file, each acknowledged version is also written there. It survives the death of the
//! process, so that the next one can say what must be there: see [`Oracle::adopt`].

use crate::exit::Failure;
use crate::torture::model::{Effect, Record, shape};
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use unikv_shapes::{Shape, mix};

const MAGIC: &[u8; 8] = b"unikv-x1";
/// A unit of eight versions never lies on two pages, so a kill cannot tear its note.
const HEADER_BYTES: u64 = 32;
const VERSION_BYTES: u64 = 4;

/// The versions of all keys.
pub struct Oracle {
    pub threads: u64,
    pub keys_per_thread: u64,
    versions: Vec<AtomicU32>,
    live_bytes: AtomicU64,
    frame_bytes: AtomicU64,
    max_space_amp: f64,
    file: Option<(PathBuf, File)>,
    /// Whether the file was there already.
    pub continued: bool,
}

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Nothing,
    Version(u32),
}

impl Found {
    /// Whether version `version` of `record` looks like this.
    pub fn is(self, record: Record, version: u32) -> bool {
        match self {
            Found::Nothing => record.effect(version) == Effect::Absent,
            Found::Version(found) => found == version,
        }
    }
}

/// What stands for a shape in the file.
fn mark_of(shape: Shape) -> u64 {
    let name = shape.name().bytes();
    name.fold(0, |mark, byte| mix(mark ^ u64::from(byte)))
}

/// The shape of the keys and values that a file is of, if there is such a file.
pub fn shape_in(path: &Path) -> Option<Shape> {
    let mut header = [0; HEADER_BYTES as usize];
    File::open(path).ok()?.read_exact_at(&mut header, 0).ok()?;
    let mark = u64::from_le_bytes(*header.last_chunk()?);
    Shape::ALL.into_iter().find(|shape| mark_of(*shape) == mark)
}

impl Oracle {
    /// Of keys that have never been written, or as an earlier process left them in `file`.
    pub fn open(
        threads: u64,
        keys_per_thread: u64,
        max_space_amp: f64,
        file: Option<&Path>,
    ) -> Result<Oracle, Failure> {
        let count = threads * keys_per_thread;
        let mut oracle = Oracle {
            threads,
            keys_per_thread,
            versions: (0..count).map(|_| AtomicU32::new(0)).collect(),
            live_bytes: AtomicU64::new(0),
            frame_bytes: AtomicU64::new(0),
            max_space_amp,
            file: None,
            continued: false,
        };
        if let Some(path) = file {
            oracle.attach(path)?;
        }
        Ok(oracle)
    }

    fn attach(&mut self, path: &Path) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::file(path, &error);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        let mut header = [0; HEADER_BYTES as usize];
        header[..8].copy_from_slice(MAGIC);
        header[8..16].copy_from_slice(&self.threads.to_le_bytes());
        header[16..24].copy_from_slice(&self.keys_per_thread.to_le_bytes());
        header[24..32].copy_from_slice(&mark_of(shape()).to_le_bytes());
        let length = file.metadata().map_err(failed)?.len();
        if length < HEADER_BYTES + self.versions.len() as u64 * VERSION_BYTES {
            // New, or of a process that was killed before it began: the length comes last.
            file.write_all_at(&header, 0).map_err(failed)?;
            file.set_len(HEADER_BYTES + self.versions.len() as u64 * VERSION_BYTES)
                .map_err(failed)?;
        } else {
            self.read_all(&file, &header).map_err(failed)?;
            self.continued = true;
        }
        self.file = Some((path.to_owned(), file));
        Ok(())
    }

    fn read_all(&mut self, file: &File, header: &[u8]) -> io::Result<()> {
        let mut found = [0; HEADER_BYTES as usize];
        file.read_exact_at(&mut found, 0)?;
        if found != header {
            let what = "is of another number of threads or keys, or of another shape";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let mut bytes = vec![0; self.versions.len() * VERSION_BYTES as usize];
        file.read_exact_at(&mut bytes, HEADER_BYTES)?;
        let (words, _) = bytes.as_chunks::<4>();
        let (mut live_bytes, mut frame_bytes) = (0, 0);
        for (slot, (version, word)) in self.versions.iter().zip(words).enumerate() {
            let value = u32::from_le_bytes(*word);
            version.store(value, Ordering::Release);
            let record = self.record(slot as u64);
            live_bytes += record.live_bytes(value);
            frame_bytes += record.frame_bytes(value, self.max_space_amp);
        }
        self.live_bytes.store(live_bytes, Ordering::Release);
        self.frame_bytes.store(frame_bytes, Ordering::Release);
        Ok(())
    }

    fn record(&self, slot: u64) -> Record {
        Record {
            thread: slot / self.keys_per_thread,
            index: slot % self.keys_per_thread,
        }
    }

    fn slot(&self, record: Record) -> u64 {
        record.thread * self.keys_per_thread + record.index
    }

    /// The version acknowledged last.
    pub fn version(&self, record: Record) -> u32 {
        let cell = self.versions.get(self.slot(record) as usize);
        cell.map_or(0, |cell| cell.load(Ordering::Acquire))
    }

    /// Keys and values of the records there.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes.load(Ordering::Acquire)
    }

    /// What these may take beyond the factor that is promised.
    pub fn frame_bytes(&self) -> u64 {
        self.frame_bytes.load(Ordering::Acquire)
    }

    /// A write of the keys `unit` of a thread has been acknowledged.
    pub fn acknowledge(&self, thread: u64, unit: Range<u64>, version: u32) -> Result<(), Failure> {
        if let Some((path, file)) = &self.file {
            let first = Record {
                thread,
                index: unit.start,
            };
            let bytes = version
                .to_le_bytes()
                .repeat((unit.end - unit.start) as usize);
            let offset = HEADER_BYTES + self.slot(first) * VERSION_BYTES;
            file.write_all_at(&bytes, offset)
                .map_err(|error| Failure::file(path, &error))?;
        }
        for index in unit {
            let record = Record { thread, index };
            let Some(cell) = self.versions.get(self.slot(record) as usize) else {
                continue;
            };
            let old = cell.swap(version, Ordering::AcqRel);
            let grown = record.live_bytes(version);
            self.live_bytes.fetch_add(grown, Ordering::AcqRel);
            let shrunk = record.live_bytes(old);
            self.live_bytes.fetch_sub(shrunk, Ordering::AcqRel);
            let frames = |version| record.frame_bytes(version, self.max_space_amp);
            self.frame_bytes
                .fetch_add(frames(version), Ordering::AcqRel);
            self.frame_bytes.fetch_sub(frames(old), Ordering::AcqRel);
        }
        Ok(())
    }

    /// Compares a key of the own thread with what was found of it.
    pub fn judge_own(&self, record: Record, found: Found) -> Result<(), String> {
        let version = self.version(record);
        if found.is(record, version) {
            Ok(())
        } else {
            Err(format!("expected {}", in_words(record, version)))
        }
    }

    /// Compares a key of another thread, whose version was `before` when the read began.
    pub fn judge_other(&self, record: Record, before: u32, found: Found) -> Result<(), String> {
        // The next one may be under way.
        let newest = self.version(record).saturating_add(1);
        let fits = match found {
            Found::Version(version) => (before..=newest).contains(&version),
            Found::Nothing => (before..=newest).any(|version| found.is(record, version)),
        };
        if fits {
            Ok(())
        } else {
            Err(format!("expected a version from {before} to {newest}"))
        }
    }

    /// What an earlier process left of the keys `unit`, in their order: the acknowledged version,
    /// or one more, of all of them alike. The latter is adopted; true then.
    pub fn adopt(
        &self,
        thread: u64,
        unit: Range<u64>,
        found: &[Found],
        may_be_ahead: bool,
    ) -> Result<Result<bool, String>, Failure> {
        let first = Record {
            thread,
            index: unit.start,
        };
        let version = self.version(first);
        let all = |version| {
            let mut pairs = unit.clone().zip(found);
            pairs.all(|(index, found)| found.is(Record { thread, index }, version))
        };
        if all(version) {
            return Ok(Ok(false));
        }
        if may_be_ahead && all(version + 1) {
            self.acknowledge(thread, unit, version + 1)?;
            return Ok(Ok(true));
        }
        let ahead = if may_be_ahead { " or the next" } else { "" };
        Ok(Err(format!(
            "expected version {version}{ahead} of {} keys from {}, found {found:?}",
            found.len(),
            first.key().escape_ascii()
        )))
    }
}

/// A version of a key, for a message.
pub fn in_words(record: Record, version: u32) -> String {
    match record.effect(version) {
        Effect::Absent => format!("nothing, as of version {version}"),
        Effect::Value(length) => format!("{length} bytes of version {version}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    const RECORD: Record = Record {
        thread: 1,
        index: 5,
    };

    #[test]
    fn owners_know_exactly_and_others_a_range() {
        let oracle = Oracle::open(2, 8, 1.5, None).unwrap();
        assert!(oracle.judge_own(RECORD, Found::Nothing).is_ok());
        assert!(oracle.judge_own(RECORD, Found::Version(1)).is_err());
        for version in 1..10 {
            oracle.acknowledge(1, 5..6, version).unwrap();
            assert_eq!(oracle.live_bytes(), RECORD.live_bytes(version));
        }
        assert!(oracle.judge_own(RECORD, Found::Version(8)).is_err());
        for version in 7..=10 {
            assert!(
                oracle
                    .judge_other(RECORD, 7, Found::Version(version))
                    .is_ok()
            );
        }
        assert!(oracle.judge_other(RECORD, 7, Found::Version(6)).is_err());
        assert!(oracle.judge_other(RECORD, 7, Found::Version(11)).is_err());
    }

    #[test]
    fn the_next_process_reads_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("expect");
        let open = |threads| Oracle::open(threads, 8, 1.5, Some(&path));
        let oracle = open(2).unwrap();
        assert!(!oracle.continued);
        oracle.acknowledge(1, 0..8, 4).unwrap();
        let live_bytes = oracle.live_bytes();
        drop(oracle);
        let oracle = open(2).unwrap();
        assert!(oracle.continued);
        assert_eq!(
            (oracle.version(RECORD), oracle.live_bytes()),
            (4, live_bytes)
        );
        assert!(open(1).is_err());
    }

    #[test]
    fn a_unit_is_there_as_a_whole() {
        let is_value =
            |index, version| (Record { thread: 1, index }).effect(version) != Effect::Absent;
        // Versions that cannot be taken for one another.
        let v = (2..)
            .find(|v| (v - 1..=v + 1).all(|v| is_value(0, v) && is_value(1, v)))
            .unwrap();
        let oracle = Oracle::open(2, 8, 1.5, None).unwrap();
        oracle.acknowledge(1, 0..2, v).unwrap();
        let adopt = |versions: [u32; 2], ahead| {
            let left = versions.map(Found::Version);
            oracle.adopt(1, 0..2, &left, ahead).unwrap()
        };
        assert_eq!(adopt([v, v], false), Ok(false));
        assert!(adopt([v + 1, v + 1], false).is_err());
        assert!(adopt([v + 1, v], true).is_err(), "a torn batch");
        assert!(adopt([v - 1, v - 1], true).is_err(), "a lost write");
        assert_eq!(adopt([v + 1, v + 1], true), Ok(true));
        let other = Record {
            thread: 1,
            index: 1,
        };
        assert_eq!(oracle.version(other), v + 1);
    }
}
