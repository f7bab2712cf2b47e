//! All the ways in which one database is damaged.

use super::specimen::{FileFacts, FileKind, Specimen, extension, name_of};
use std::ops::Range;
use std::path::{Path, PathBuf};
use unikv::vfs::Vfs;
use unikv::vfs::sim::SimVfs;

/// A kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// One byte has changed.
    Byte,
    /// The end of a file is missing.
    Cut,
    /// A file goes on after its end.
    Grown,
    /// Two pieces of a file stand in each other's place.
    Swap,
    /// A piece of another file, database, or time.
    Foreign,
    /// A file stands in another's place.
    Replaced,
    /// A file is missing.
    Missing,
    /// A directory is in its place.
    Directory,
    /// It cannot be read.
    Unreadable,
    /// A file, or a directory, that nothing lists.
    Extra,
}

/// One damage.
pub struct Damage {
    /// What `UNIKV_DAMAGE` calls it.
    pub name: String,
    /// Its kind.
    pub what: What,
    /// The damaged file.
    pub path: PathBuf,
    /// The bytes of the undamaged file that are not what they were.
    pub changed: Range<u64>,
    /// The file as it is now, if it still is one.
    pub bytes: Option<Vec<u8>>,
}

impl Damage {
    /// Damages a disk.
    pub fn apply(&self, disk: &SimVfs) {
        if let (Some(bytes), true) = (&self.bytes, self.what != What::Unreadable) {
            disk.write_file(&self.path, bytes);
            return;
        }
        if self.what == What::Unreadable {
            let path = self.path.clone();
            disk.set_read_fault(Box::new(move |call| {
                (call.path == path).then_some(std::io::ErrorKind::Other)
            }));
            return;
        }
        // An extra directory has nothing in its place.
        let _may_be_missing = disk.remove(&self.path);
        if matches!(self.what, What::Directory | What::Extra) {
            disk.create_dir_all(&self.path).expect("a directory");
        }
        let dir = self.path.parent().expect("a directory");
        disk.sync_dir(dir).expect("a sync of the directory");
    }
}

/// Where damages go.
pub(super) type Each<'a> = dyn FnMut(&Damage) + 'a;

/// Calls back with each damage.
pub fn each(specimen: &Specimen, each: &mut Each<'_>) {
    for (path, facts) in &specimen.files {
        let file = File { path, facts };
        if facts.kind == FileKind::Idle {
            file.idle(each);
            continue;
        }
        file.change_bytes(1, each);
        file.cut(each);
        file.grow(each);
        file.swap_pieces(each);
        file.take_from_others(specimen, each);
        file.replace(specimen, each);
        file.mislay(each);
    }
    add_files(specimen, each);
}

/// A file that is damaged.
pub(super) struct File<'a> {
    pub(super) path: &'a Path,
    pub(super) facts: &'a FileFacts,
}

impl File<'_> {
    pub(super) fn len(&self) -> u64 {
        self.facts.bytes.len() as u64
    }

    fn damage(&self, what: What, how: &str, changed: Range<u64>, bytes: Vec<u8>) -> Damage {
        Damage {
            name: format!("{}:{how}", name_of(self.path)),
            what,
            path: self.path.to_owned(),
            changed,
            bytes: Some(bytes),
        }
    }

    /// Hands on a file with other bytes, unless they are the same.
    pub(super) fn changed(&self, what: What, how: &str, bytes: Vec<u8>, each: &mut Each<'_>) {
        let pairs = || bytes.iter().zip(&self.facts.bytes);
        let Some(first) = pairs().position(|(new, old)| new != old) else {
            return;
        };
        let end = pairs().rposition(|(new, old)| new != old).unwrap_or(first) + 1;
        each(&self.damage(what, how, first as u64..end as u64, bytes));
    }

    /// Bytes that mean nothing, and files in whose place anything may be.
    fn idle(&self, each: &mut Each<'_>) {
        self.change_bytes(self.facts.bytes.len() / 16 + 1, each);
        for len in [0, self.facts.bytes.len() / 2] {
            let cut = self.facts.bytes[..len].to_vec();
            let changed = len as u64..self.len();
            each(&self.damage(What::Cut, &format!("cut:{len}"), changed, cut));
        }
        self.grow(each);
        let missing = self.damage(What::Missing, "missing", 0..self.len(), Vec::new());
        each(&Damage {
            bytes: None,
            ..missing
        });
    }

    fn change_bytes(&self, stride: usize, each: &mut Each<'_>) {
        for at in (0..self.facts.bytes.len()).step_by(stride) {
            let was = self.facts.bytes[at];
            let bit = at.wrapping_mul(0x9e37_79b9) >> 7 & 7;
            for (how, now) in [("flip", was ^ 1 << bit), ("zero", 0), ("ones", 0xff)] {
                if now != was {
                    let mut bytes = self.facts.bytes.clone();
                    bytes[at] = now;
                    let changed = at as u64..at as u64 + 1;
                    each(&self.damage(What::Byte, &format!("{how}:{at}"), changed, bytes));
                }
            }
        }
    }

    fn cut(&self, each: &mut Each<'_>) {
        for len in 0..self.facts.bytes.len() {
            let cut = self.facts.bytes[..len].to_vec();
            let changed = len as u64..self.len();
            each(&self.damage(What::Cut, &format!("cut:{len}"), changed, cut));
        }
    }

    fn grow(&self, each: &mut Each<'_>) {
        for more in [1, 24, 512, 4096] {
            for (how, byte) in [("zeros", 0), ("garbage", 0xa5)] {
                let mut bytes = self.facts.bytes.clone();
                let begin = bytes.len();
                bytes.resize(begin + more, byte);
                if byte != 0 {
                    let tail = bytes[begin..].iter_mut().enumerate();
                    tail.for_each(|(i, byte)| *byte ^= ((i * i) >> 3) as u8);
                }
                let end = self.len()..self.len();
                each(&self.damage(What::Grown, &format!("grow-{how}:{more}"), end, bytes));
            }
        }
        // The file's own end once more: a record that was written twice.
        let mut bytes = self.facts.bytes.clone();
        let from = bytes.len().saturating_sub(200);
        bytes.extend_from_within(from..);
        let end = self.len()..self.len();
        each(&self.damage(What::Grown, "grow-again", end, bytes));
    }

    /// Puts whole files in the place of this one.
    fn replace(&self, specimen: &Specimen, each: &mut Each<'_>) {
        let of_specimen = specimen.files.iter();
        let others = of_specimen.filter(|(path, _)| **path != self.path);
        let others = others.map(|(path, facts)| (name_of(path), facts.bytes.clone()));
        let twins = specimen.twins.iter().filter_map(|twin| {
            let bytes = twin.disk.read_file(self.path)?;
            Some((twin.what.to_owned(), bytes))
        });
        for (from, bytes) in others.chain(twins) {
            if bytes != self.facts.bytes && bytes.len() < 1 << 16 {
                let how = format!("replaced-by-{from}");
                each(&self.damage(What::Replaced, &how, 0..self.len(), bytes));
            }
        }
    }

    fn mislay(&self, each: &mut Each<'_>) {
        for (what, how) in [
            (What::Missing, "missing"),
            (What::Directory, "directory"),
            (What::Unreadable, "unreadable"),
        ] {
            let damage = self.damage(what, how, 0..self.len(), Vec::new());
            each(&Damage {
                bytes: None,
                ..damage
            });
        }
    }
}

/// Files that nothing lists: copies of listed ones under the names that come next and under absurd
/// ones, garbage, nothing, and directories.
fn add_files(specimen: &Specimen, each: &mut Each<'_>) {
    let dir = specimen.files.keys().next().and_then(|path| path.parent());
    let dir = dir.expect("a directory");
    let numbers = specimen.files.keys().map(|p| super::specimen::number_of(p));
    let last = numbers.max().unwrap_or(0);
    let mut names = vec!["CURRENT.tmp".to_owned(), "notes.txt".to_owned()];
    let next = (last + 1..last + 6).chain([0, last + 1000, u64::MAX - 1, u64::MAX]);
    for n in next {
        names.push(format!("{n:06}.rec"));
        names.push(format!("{n:06}.key"));
        names.push(format!("{n:06}.wal"));
        names.push(format!("MANIFEST-{n:06}"));
    }
    for name in names {
        let path = dir.join(&name);
        let kind = |path: &Path| match name_of(path).split_once('-') {
            Some((prefix, _)) => prefix.to_owned(),
            None => extension(path),
        };
        let kin = specimen.files.iter().find(|(p, _)| kind(p) == kind(&path));
        let current = specimen.files.get(&dir.join("CURRENT"));
        let like = kin.map(|(_, facts)| facts).or(current);
        let like = like.map_or(Vec::new(), |facts| facts.bytes.clone());
        let from_twin = specimen.twins.iter().find_map(|twin| {
            let mut theirs = twin.disk.file_names();
            theirs.retain(|theirs| kind(theirs) == kind(&path));
            twin.disk.read_file(theirs.last()?)
        });
        let half = like[..like.len() / 2].to_vec();
        let contents = [
            ("empty", Some(Vec::new())),
            ("zeros", Some(vec![0; 300])),
            ("copy", Some(like)),
            ("half", Some(half)),
            ("twin", from_twin),
            ("directory", None),
        ];
        for (how, bytes) in contents {
            if bytes.is_none() && how != "directory" {
                continue;
            }
            each(&Damage {
                name: format!("{name}:extra-{how}"),
                what: What::Extra,
                path: path.clone(),
                changed: 0..0,
                bytes,
            });
        }
    }
}
