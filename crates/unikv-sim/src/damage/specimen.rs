//! A closed database, and everything that can be known of it before it is damaged.

use super::pieces::{self, Piece};
use super::window::Feed;
use crate::config::Config;
use crate::oracle::{Ending, Oracle, State};
use crate::runner::{DIR, env};
use crate::spaces::{self, key_in};
use crate::verify;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use unikv::inspect::Part;
use unikv::vfs::sim::{SimRuntime, SimVfs};
use unikv::{Db, Iter};

/// Bytes of a file that were read.
type ReadBytes = (PathBuf, Range<usize>);

/// Keys are distinguished by the bits of a word.
const MOST_KEYS: usize = 64;
/// The length of a file header.
pub(super) const HEADER_LEN: u64 = 96;

/// Another database, from which files and pieces of files are taken.
pub struct Twin {
    /// What it is to the damaged one.
    pub(super) what: &'static str,
    pub(super) disk: SimVfs,
    /// What was written to it; nothing of it is known to be durable.
    pub(super) history: Oracle,
}

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// `CURRENT`
    Current,
    /// `MANIFEST-NNNNNN`
    Manifest,
    /// `NNNNNN.wal`
    Wal,
    /// `NNNNNN.rec` with a section of its keys.
    Table,
    /// `NNNNNN.rec` of records alone.
    Records,
    /// `NNNNNN.key`
    KeyTable,
    /// `NNNNNN.key` of a scan run.
    ScanRun,
    /// `LOCK` and `BALLAST`, whose bytes mean nothing.
    Idle,
}

impl FileKind {
    /// Whether files of both kinds are written in the same form.
    pub(super) fn is_like(self, other: FileKind) -> bool {
        let form = |kind| match kind {
            FileKind::Records => FileKind::Table,
            FileKind::ScanRun => FileKind::KeyTable,
            kind => kind,
        };
        form(self) == form(other)
    }
}

/// The reads that read a byte of a file, in the undamaged database right after opening: a bit for
/// each key that is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Touched {
    pub(super) get: u64,
    /// Scans that begin and end at the key.
    pub(super) forward: u64,
    pub(super) backward: u64,
}

/// A file before it is damaged.
pub struct FileFacts {
    /// What it is for.
    pub kind: FileKind,
    /// Whether it is missed when it is not there. The others wait to be removed, or mean nothing.
    pub(super) is_needed: bool,
    pub(super) bytes: Vec<u8>,
    pub(super) pieces: Vec<Piece>,
    pub(super) touched: Vec<Touched>,
}

/// A durable point: which record says it, and what of.
pub(super) struct Mark {
    /// What a file is called of the log that it is about.
    pub(super) extension: String,
    pub(super) carrier: PathBuf,
    pub(super) record: Range<u64>,
    /// Everything of the chain below this was durable.
    pub(super) number: u64,
    pub(super) offset: u64,
}

/// A closed database.
pub struct Specimen {
    /// Its shape.
    pub name: &'static str,
    pub(super) disk: SimVfs,
    pub(super) config: Config,
    pub(super) state: State,
    /// What it may hold when the end of a log is lost above the marks.
    pub(super) oracle: Oracle,
    /// The same, but nothing of it is known to be durable.
    pub(super) history: Oracle,
    /// Its files, by path.
    pub files: BTreeMap<PathBuf, FileFacts>,
    pub(super) twins: Vec<Twin>,
    /// The keys that are asked for, sorted: all that were ever written, and some others.
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) marks: Vec<Mark>,
    /// Where segments of the log end, by their numbers, as the next ones say.
    pub(super) ends: BTreeMap<u64, u64>,
    /// What the engine says of the sizes of everything, and of the first half of the keys.
    pub(super) sizes: (u64, u64),
    /// The numbers that its keyspaces have had, and their names.
    pub(super) numbers: Vec<(u32, &'static str)>,
    /// What follows each of some tokens.
    pub(super) feeds: Vec<Feed>,
}

pub(super) fn name_of(path: &Path) -> String {
    path.file_name()
        .map_or(String::new(), |name| name.to_string_lossy().into_owned())
}

pub(super) fn extension(path: &Path) -> String {
    path.extension()
        .map_or(String::new(), |ext| ext.to_string_lossy().into_owned())
}

/// The number in the name of a file; 0 if there is none.
pub(super) fn number_of(path: &Path) -> u64 {
    let name = name_of(path);
    let digits = name.trim_start_matches("MANIFEST-");
    let digits = digits.split('.').next().unwrap_or("");
    digits.parse().unwrap_or(0)
}

impl Specimen {
    pub(super) fn new(
        name: &'static str,
        disk: SimVfs,
        config: Config,
        oracle: Oracle,
        history: Oracle,
        twins: Vec<Twin>,
    ) -> Specimen {
        let mut keys: Vec<Vec<u8>> = oracle.keys().iter().cloned().collect();
        let others: [&[u8]; 4] = [b"", b"key00x", b"key17x", b"zz"];
        keys.extend(others.map(<[u8]>::to_vec));
        if keys.iter().any(|key| !spaces::is_own(key)) {
            let names = spaces::NAMES.iter();
            let ends = names.flat_map(|name| [b"", &b"zz"[..]].map(|key| key_in(name, key)));
            let presences = spaces::NAMES.iter().map(|name| spaces::presence(name));
            keys.extend(ends.chain(presences).collect::<Vec<_>>());
        }
        keys.sort_unstable();
        keys.dedup();
        assert!(keys.len() <= MOST_KEYS, "{} keys", keys.len());
        let mut specimen = Specimen {
            name,
            disk,
            config,
            state: State::new(),
            oracle,
            history,
            files: BTreeMap::new(),
            twins,
            keys,
            marks: Vec::new(),
            ends: BTreeMap::new(),
            sizes: (0, 0),
            numbers: Vec::new(),
            feeds: Vec::new(),
        };
        let (db, _runtime) = specimen.open();
        let matters = specimen.oracle.times.matters;
        specimen.state = spaces::whole(&db, matters).expect("a scan");
        verify::content(&db, &mut specimen.oracle.clone(), Ending::PowerCut);
        specimen.sizes = specimen.sizes_of(&db).expect("sizes");
        drop(db);
        verify::check_clean(&specimen.disk.process_kill());
        specimen.look_at_files();
        specimen.trace_reads();
        specimen
    }

    /// A copy of it, opened.
    fn open(&self) -> (Db, Arc<SimRuntime>) {
        let times = &self.oracle.times;
        verify::open_at(&self.disk.process_kill(), &self.config, 3, times)
    }

    /// What is said of the size of the default keyspace, and of the first half of its keys.
    pub(super) fn sizes_of(&self, db: &Db) -> unikv::Result<(u64, u64)> {
        let own = self.keys.partition_point(|key| spaces::is_own(key));
        let all = db.approximate_size(..)?;
        let half = db.approximate_size(..&self.keys[own / 2][..])?;
        Ok((all, half))
    }

    fn look_at_files(&mut self) {
        for path in self.disk.file_names() {
            let bytes = self.disk.read_file(&path).expect("a listed file");
            let parts = pieces::parts(&self.disk, &path);
            let pieces = pieces::of(&parts);
            let name = name_of(&path);
            let marks = parts.iter().flat_map(|part| {
                let of = |wanted: &'static str, extension: String| {
                    let says = part.fields.iter().find(|(name, _)| *name == wanted)?;
                    Some((&says.1, extension))
                };
                let own = of("durable", extension(&path));
                own.into_iter()
                    .chain(of("log durable", "wal".to_owned()))
                    .map(move |says| (part, says))
            });
            let marks = marks.filter_map(|(part, (says, extension))| {
                let (number, offset) = says.strip_prefix("file ")?.split_once(" up to ")?;
                Some(Mark {
                    extension,
                    carrier: path.clone(),
                    record: part.offset..part.offset + part.len,
                    number: number.parse().expect("a number"),
                    offset: offset.parse().expect("an offset"),
                })
            });
            self.marks.extend(marks);
            let starts = parts.iter().filter_map(|part| {
                let (_, says) = part
                    .fields
                    .iter()
                    .find(|(name, _)| *name == "predecessor")?;
                let (number, end) = says.split_once(" up to ")?;
                let (number, end) = (number.split(' ').next()?, end.split(',').next()?);
                Some((number.parse::<u64>().ok()?, end.parse().expect("an offset")))
            });
            self.ends.extend(starts);
            let has_blocks = pieces.iter().any(|(what, _)| *what == "block");
            let (is_clean, is_whole) = self.without(&path);
            let kind = match &extension(&path)[..] {
                "wal" => FileKind::Wal,
                "rec" if has_blocks => FileKind::Table,
                "rec" => FileKind::Records,
                "key" if is_whole && !is_clean => FileKind::ScanRun,
                "key" => FileKind::KeyTable,
                _ if name == "CURRENT" => FileKind::Current,
                _ if name.starts_with("MANIFEST") => FileKind::Manifest,
                _ => FileKind::Idle,
            };
            let mut touched = vec![Touched::default(); bytes.len()];
            self.note_range_deletes(&parts, &mut touched);
            let facts = FileFacts {
                kind,
                is_needed: !(is_clean && is_whole),
                bytes,
                pieces,
                touched,
            };
            self.files.insert(path, facts);
        }
    }

    /// Notes what the range deletes of a table touch: opening reads them, and where they are
    /// damaged whatever they may cover is in doubt.
    fn note_range_deletes(&self, parts: &[Part], touched: &mut [Touched]) {
        let text_of = |part: &Part, field| {
            let text = &part.fields.iter().find(|(name, _)| *name == field)?.1;
            Some(text.strip_prefix('"')?.strip_suffix('"')?.to_owned())
        };
        let deletes = parts.iter().filter(|part| part.what == "range delete");
        let ranges = deletes.clone().map(|part| {
            let bounds = text_of(part, "from").zip(text_of(part, "to before"));
            bounds.expect("a short range of the default keyspace")
        });
        let Some((from, to)) = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else {
            return;
        };
        let keys = self.keys.iter().enumerate();
        let covered = keys.filter(|(_, key)| (from.as_bytes()..to.as_bytes()).contains(&&key[..]));
        let bits = covered.fold(0, |bits, (i, _)| bits | 1 << i);
        for part in deletes {
            for byte in &mut touched[part.offset as usize..][..part.len as usize] {
                byte.get |= bits;
                byte.forward |= bits;
                byte.backward |= bits;
            }
        }
    }

    /// Whether the database can do without this file: whether a check says nothing, and whether it
    /// opens with what it had.
    fn without(&self, path: &Path) -> (bool, bool) {
        use unikv::vfs::Vfs;
        let disk = self.disk.process_kill();
        disk.remove(path).expect("the file is there");
        let runtime = self.oracle.times.runtime(1);
        let checked = env(&disk, &runtime).check(DIR);
        let is_clean = checked.is_ok_and(|report| report.is_clean());
        let opened = Db::open(DIR, self.config.options().env(env(&disk, &runtime)));
        let matters = self.oracle.times.matters;
        let same = |db: Db| spaces::whole(&db, matters).is_ok_and(|found| found == self.state);
        (is_clean, opened.is_ok_and(same))
    }

    /// Notes which bytes each read reads.
    fn trace_reads(&mut self) {
        for i in 0..self.keys.len() {
            let key = self.keys[i].clone();
            let bit = 1 << i;
            let get = |db: &Db| drop(spaces::get(db, &key));
            self.trace(get, |touched| touched.get |= bit);
            if spaces::is_presence(&key) {
                continue;
            }
            let drain = |iter: &mut dyn Iterator<Item = _>| iter.for_each(drop::<unikv::Result<_>>);
            let only = |db: &Db| spaces::range(db, &key, &key).into_iter();
            let forward = |db: &Db| only(db).for_each(|mut iter| drain(&mut iter));
            self.trace(forward, |touched| touched.forward |= bit);
            let backward = |db: &Db| only(db).for_each(|iter| drain(&mut Iter::rev(iter)));
            self.trace(backward, |touched| touched.backward |= bit);
        }
    }

    fn trace(&mut self, read: impl Fn(&Db), note: impl Fn(&mut Touched)) {
        let disk = self.disk.process_kill();
        let (db, _runtime) = verify::open_at(&disk, &self.config, 3, &self.oracle.times);
        let calls: Arc<Mutex<Vec<ReadBytes>>> = Arc::default();
        let seen = Arc::clone(&calls);
        disk.set_read_fault(Box::new(move |call| {
            let start = call.offset as usize;
            let bytes = start..start + call.bytes;
            seen.lock().unwrap().push((call.path.to_owned(), bytes));
            None
        }));
        read(&db);
        for (path, bytes) in calls.lock().unwrap().drain(..) {
            // Files of the process that reads are not of the specimen.
            if let Some(facts) = self.files.get_mut(&path) {
                let end = bytes.end.min(facts.touched.len());
                facts.touched[bytes.start.min(end)..end]
                    .iter_mut()
                    .for_each(&note);
            }
        }
    }

    /// The files of some kinds.
    pub fn files_of(&self, kinds: &[FileKind]) -> Vec<&PathBuf> {
        let wanted = |(_, facts): &(&PathBuf, &FileFacts)| kinds.contains(&facts.kind);
        let found = self.files.iter().filter(wanted);
        found.map(|(path, _)| path).collect()
    }
}
