//! A small database on a simulated disk, with files of every kind: value logs, tables of an
//! UnsortedStore, key tables with inline values and pointers, a file of a large value, a manifest
//! of several edits, and a log of two segments.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use unikv::vfs::Env;
use unikv::vfs::sim::{SimRuntime, SimVfs};
use unikv::{Batch, Db, Durability, Options, Tuning};

/// Where the database is.
pub const DIR: &str = "/db";

/// Keys and values.
pub type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// The database and what it held after each write.
pub struct Specimen {
    /// The disk after a kill of the process.
    pub disk: SimVfs,
    /// Its files, sorted.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    /// The contents that it may have when a log is damaged: at the last flush, and after each write
    /// since. The last is the one that an undamaged disk shows.
    pub contents: Vec<Content>,
}

/// An environment of a disk and a scheduler of its own.
pub fn env(disk: &SimVfs) -> Env {
    Env {
        vfs: Arc::new(disk.clone()),
        runtime: SimRuntime::new(5),
    }
}

/// The options of the specimen.
pub fn options() -> Options {
    Options::default()
        .durability(Durability::Periodic(Duration::from_secs(3600)))
        .tuning(
            Tuning::default()
                .memtable_bytes(8 << 10)
                .unsorted_bytes(1 << 20)
                .partition_bytes(1 << 40)
                .key_table_bytes(1 << 10)
                .block_bytes(256)
                .scan_merge_limit(1)
                .background_threads(2),
        )
        .inline_value_bytes(12)
        .memory_budget(1 << 20)
}

impl Specimen {
    /// Builds it; always the same.
    pub fn build() -> Specimen {
        let disk = SimVfs::new();
        let opened = Db::open(DIR, options().env(env(&disk)));
        let db = opened.expect("a new database");
        let mut content = Content::new();
        let mut change = |n: usize, stamp: usize| {
            let key = format!("key{:02}", n % 24).into_bytes();
            let value = (stamp % 7 != 3).then(|| vec![b'a' + (stamp % 26) as u8; n * 7 % 40]);
            match &value {
                Some(value) => db.put(&key, value),
                None => db.delete(&key),
            }
            .expect("a write");
            match value {
                Some(value) => content.insert(key, value),
                None => content.remove(&key),
            };
            content.clone()
        };
        (0..24).for_each(|n| drop(change(n, n)));
        db.compact().expect("a compaction");
        let flushed = (3..15).map(|n| change(n * 5, 40 + n)).last();
        db.flush().expect("a flush");
        let mut contents = vec![flushed.unwrap_or_default(), change(1, 60)];
        let large = vec![b'L'; 3000];
        let mut batch = Batch::new();
        batch
            .put("large", &large)
            .put("key01", "batch")
            .set_commit_tag("a mark");
        db.write_with(&batch, Durability::Sync).expect("a write");
        let mut next = contents[1].clone();
        next.insert(b"large".to_vec(), large);
        next.insert(b"key01".to_vec(), b"batch".to_vec());
        contents.push(next);
        let before = Specimen::of(&disk, contents.clone());
        drop(db);
        // Opened once more: a second segment, which links to the first.
        let disk = before.disk;
        let db = Db::open(DIR, options().env(env(&disk))).expect("the database opens");
        for n in 0..4 {
            let (key, value) = (format!("key{n:02}"), format!("second life {n}"));
            db.put(&key, &value).expect("a write");
            let mut next = contents.last().cloned().unwrap_or_default();
            next.insert(key.into_bytes(), value.into_bytes());
            contents.push(next);
        }
        let specimen = Specimen::of(&disk, contents);
        drop(db);
        specimen
    }

    fn of(disk: &SimVfs, contents: Vec<Content>) -> Specimen {
        let disk = disk.process_kill();
        let names = disk.file_names().into_iter();
        let read = |path: PathBuf| disk.read_file(&path).map(|bytes| (path, bytes));
        Specimen {
            files: names.filter_map(read).collect(),
            contents,
            disk,
        }
    }

    /// The files whose name ends or begins so.
    pub fn files_like(&self, part: &str) -> Vec<&[u8]> {
        let like = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.ends_with(part) || name.starts_with(part))
        };
        let files = self.files.iter().filter(|(path, _)| like(path));
        files.map(|(_, bytes)| &bytes[..]).collect()
    }
}
