use super::lock_file::lock_file;
use super::*;
use crate::testing::limit;
use crate::vfs::{DIRECT_EXTRA_BYTES, DirectRead};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use rustix::fs::FlockOperation;
use std::cell::{Cell, RefCell};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

/// A file that reads and writes at most seven bytes at a time and is interrupted at every other
/// call.
pub(super) struct Stingy {
    pub(super) bytes: RefCell<Vec<u8>>,
    calls: Cell<u32>,
    /// Where there is no room for a write, or a read fails.
    pub(super) fails_at: Cell<Option<u64>>,
    pub(super) takes_nothing: Cell<bool>,
}

impl Stingy {
    pub(super) fn new(bytes: &[u8]) -> Stingy {
        Stingy {
            bytes: RefCell::new(bytes.to_vec()),
            calls: Cell::new(0),
            fails_at: Cell::new(None),
            takes_nothing: Cell::new(false),
        }
    }

    /// How many of `len` bytes at `offset` a call takes.
    fn take(&self, len: usize, offset: u64) -> io::Result<usize> {
        self.calls.set(self.calls.get() + 1);
        if self.calls.get().is_multiple_of(2) {
            return Err(ErrorKind::Interrupted.into());
        }
        if self.takes_nothing.get() {
            return Ok(0);
        }
        let room = self
            .fails_at
            .get()
            .map_or(7, |at| at.saturating_sub(offset).min(7));
        match room {
            0 => Err(ErrorKind::StorageFull.into()),
            room => Ok(len.min(room as usize)),
        }
    }
}

impl FileExt for Stingy {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.bytes.borrow();
        let there = bytes.get(offset as usize..).unwrap_or_default();
        let len = self.take(buf.len().min(there.len()), offset)?;
        buf[..len].copy_from_slice(&there[..len]);
        Ok(len)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let len = self.take(buf.len(), offset)?;
        let mut bytes = self.bytes.borrow_mut();
        let end = offset as usize + len;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[end - len..end].copy_from_slice(&buf[..len]);
        Ok(len)
    }
}

#[test]
fn a_read_goes_on_after_short_ones_and_interrupts() {
    let bytes = random_bytes(5, 100);
    let file = Stingy::new(&bytes);
    let mut buf = [0; 60];
    assert_eq!(read_full(&file, &mut buf, 20).unwrap(), 60);
    assert_eq!(buf, bytes[20..80]);
    assert_eq!(read_full(&file, &mut buf, 70).unwrap(), 30);
    assert_eq!(buf[..30], bytes[70..]);
    assert_eq!(read_full(&file, &mut buf, 500).unwrap(), 0);
    file.fails_at.set(Some(40));
    let failed = read_full(&file, &mut buf, 20).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::StorageFull);
}

fn random_bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    SmallRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

fn write_in_pieces(file: &mut dyn WriteFile, bytes: &[u8], max_piece: usize) {
    let mut rng = SmallRng::seed_from_u64(bytes.len() as u64);
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rng.random_range(1..=max_piece.min(rest.len())));
        file.append(piece).unwrap();
        rest = behind;
        assert_eq!(file.len(), (bytes.len() - rest.len()) as u64);
    }
}

#[test]
fn files_hold_exactly_what_was_appended_and_no_preallocation() {
    const MIB: usize = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    let vfs = OsVfs::default();
    let lens = [
        0,
        1,
        511,
        512,
        4095,
        4096,
        4097,
        MIB - 1,
        MIB,
        MIB + 1,
        MIB + 4095,
        MIB + 4096,
    ]
    .into_iter()
    .chain([MIB + 4097, 2 * MIB - 1, 2 * MIB, 3 * MIB + 12_345]);
    for len in lens {
        let bytes = random_bytes(len as u64, len);
        for (mode, max_piece) in [
            (WriteMode::Bulk, 3 * MIB),
            (WriteMode::Bulk, 70_000),
            (WriteMode::Log, 70_000),
        ] {
            let path = dir.path().join("file");
            let mut file = vfs.create(&path, mode, 8 << 20).unwrap();
            write_in_pieces(&mut *file, &bytes, max_piece);
            file.finish().unwrap();
            assert!(
                fs::read(&path).unwrap() == bytes,
                "{mode:?} of {len} bytes differs"
            );
            assert_eq!(vfs.len(&path).unwrap(), len as u64);
            let allocated = fs::metadata(&path).unwrap().blocks() * 512;
            assert!(
                allocated <= len as u64 + (64 << 10),
                "{mode:?}: {allocated} for {len}"
            );
            vfs.remove(&path).unwrap();
        }
    }
}

#[test]
fn an_append_to_a_log_is_readable_before_any_sync() {
    let dir = tempfile::tempdir().unwrap();
    let vfs = OsVfs::default();
    let path = dir.path().join("log");
    let mut log = vfs.create(&path, WriteMode::Log, 1 << 20).unwrap();
    let sync = log.sync_handle();
    log.append(b"one").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"one");
    let _limit = limit("a sync");
    std::thread::scope(|scope| {
        scope.spawn(|| sync.sync().unwrap());
        log.append(b"two").unwrap();
    });
    // Never finished: the length is still exact.
    drop(log);
    assert_eq!(fs::read(&path).unwrap(), b"onetwo");
}

#[test]
fn a_log_is_written_over_from_the_front_and_the_rest_stays() {
    let dir = tempfile::tempdir().unwrap();
    let vfs = OsVfs::default();
    let path = dir.path().join("log");
    fs::write(&path, b"the old log").unwrap();
    let mut log = vfs.overwrite(&path).unwrap();
    log.append(b"new, then more").unwrap();
    log.rewind(10).unwrap();
    assert_eq!(log.len(), 4);
    log.append(b"!").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new,!then more");
    assert_eq!(log.rewind(6).unwrap_err().kind(), ErrorKind::InvalidInput);
    log.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new,!then more");
    // What somebody keeps under another name is left as it is.
    fs::hard_link(&path, dir.path().join("kept")).unwrap();
    assert_eq!(
        vfs.overwrite(&path).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
    let missing = vfs.overwrite(&dir.path().join("missing"));
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    let mut bulk = vfs.create(&dir.path().join("table"), WriteMode::Bulk, 0);
    let refused = bulk.as_mut().unwrap().rewind(0).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
}

#[test]
fn after_a_failed_append_nothing_follows() {
    let full = || {
        Arc::new(
            OpenOptions::new()
                .read(true)
                .write(true)
                .open("/dev/full")
                .unwrap(),
        )
    };
    let bulk = BulkFile::new(full(), 0, Arc::<BufferPool>::default().take());
    let files: [Box<dyn WriteFile>; 2] = [Box::new(LogFile::new(full())), Box::new(bulk)];
    for mut file in files {
        let err = file.append(&vec![1; 1 << 20]).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::StorageFull);
        assert_eq!(file.append(b"x").unwrap_err().kind(), ErrorKind::Other);
        file.finish().unwrap_err();
    }
}

#[test]
fn reads_are_short_only_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, b"0123456789").unwrap();
    for access in [Access::Random, Access::Sequential] {
        let file = OsVfs::default().open(&path, access).unwrap();
        let mut buf = [0; 4];
        assert_eq!(file.read_at(&mut buf, 3).unwrap(), 4);
        assert_eq!(&buf, b"3456");
        assert_eq!(file.read_at(&mut buf, 8).unwrap(), 2);
        assert_eq!(&buf[..2], b"89");
        assert_eq!(file.read_at(&mut buf, 10).unwrap(), 0);
        assert_eq!(file.read_at(&mut buf, 1 << 40).unwrap(), 0);
        assert_eq!(file.len().unwrap(), 10);
    }
}

#[test]
fn directories_and_names() {
    let dir = tempfile::tempdir().unwrap();
    let vfs = OsVfs::default();
    let deep = dir.path().join("a/b/c");
    vfs.create_dir_all(&deep).unwrap();
    vfs.create_dir_all(&deep).unwrap();
    vfs.sync_dir(&deep).unwrap();
    assert_eq!(vfs.list(&dir.path().join("a")).unwrap(), ["b"]);

    let (one, two) = (deep.join("one"), deep.join("two"));
    vfs.create(&one, WriteMode::Log, 0)
        .unwrap()
        .finish()
        .unwrap();
    let again = vfs.create(&one, WriteMode::Bulk, 0).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    vfs.rename(&one, &two).unwrap();
    assert_eq!(vfs.list(&deep).unwrap(), ["two"]);
    vfs.create_dir_all(&two).unwrap_err();
    vfs.create_dir_all(&two.join("below")).unwrap_err();
    vfs.remove_dir(&deep).unwrap_err();
    vfs.remove(&two).unwrap();
    vfs.remove_dir(&deep).unwrap();
    for missing in [
        vfs.sync_dir(&deep),
        vfs.remove(&two),
        vfs.len(&two).map(drop),
    ] {
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    }
    assert!(vfs.free_space(dir.path()).unwrap() > 0);
}

#[test]
fn a_lock_is_held_once_even_in_one_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let vfs = OsVfs::default();
    let guard = vfs.lock(&path).unwrap();
    match vfs.lock(&path).unwrap_err() {
        LockError::Held(pid) => assert_eq!(pid, Some(std::process::id())),
        LockError::Io(e) => panic!("{e}"),
    }
    // Who may not write to the file finds it out all the same.
    let to_read = fs::File::open(&path).unwrap();
    let refused = lock_file(&Directory::default(), &path, &to_read).unwrap_err();
    assert!(matches!(refused, LockError::Held(Some(pid)) if pid == std::process::id()));
    drop(guard);
    assert!(
        path.exists(),
        "a lock file that goes away can be locked twice"
    );
    drop(vfs.lock(&path).unwrap());
    match vfs.lock(&dir.path().join("missing/LOCK")).unwrap_err() {
        LockError::Io(e) => assert_eq!(e.kind(), ErrorKind::NotFound),
        LockError::Held(_) => panic!("nobody can hold it"),
    }
}

#[test]
fn a_lock_file_that_has_lost_its_name_is_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    let (path, directory) = (dir.path().join("LOCK"), Directory::default());
    let flags = OFlags::RDWR | OFlags::CREATE;
    let removed = directory.open(&path, flags).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(!lock_file(&directory, &path, &removed).unwrap());
    let in_its_place = directory.open(&path, flags).unwrap();
    assert!(!lock_file(&directory, &path, &removed).unwrap());
    assert!(lock_file(&directory, &path, &in_its_place).unwrap());
}

const LOCK_PATH_VARIABLE: &str = "UNIKV_TEST_LOCK_PATH";

#[test]
fn a_released_lock_is_free_although_a_forked_child_shares_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let file = File::options()
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    let in_the_child = file.try_clone().unwrap();
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    let guard = |file, taken_by| OsLockGuard { file, taken_by };
    let child_guard = guard(in_the_child.try_clone().unwrap(), std::process::id() + 1);
    drop(child_guard);
    let vfs = OsVfs::default();
    assert!(vfs.lock(&path).is_err(), "a child has freed the lock");
    drop(guard(file, std::process::id()));
    assert!(vfs.lock(&path).is_ok(), "the child's file holds the lock");
    drop(in_the_child);
}

/// The child of the next test: takes the lock, says so, and keeps it until it is killed.
#[test]
fn child_that_holds_a_lock() {
    let Some(path) = std::env::var_os(LOCK_PATH_VARIABLE) else {
        return;
    };
    let _guard = OsVfs::default().lock(Path::new(&path)).unwrap();
    io::stderr().write_all(b"locked\n").unwrap();
    let _ = io::stdin().read_line(&mut String::new());
}

#[test]
fn the_lock_of_a_killed_process_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "vfs::os::tests::child_that_holds_a_lock",
            "--nocapture",
        ])
        .env(LOCK_PATH_VARIABLE, &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "locked"));
    match OsVfs::default().lock(&path).unwrap_err() {
        LockError::Held(pid) => assert_eq!(pid, Some(child.id())),
        LockError::Io(e) => panic!("{e}"),
    }
    child.kill().unwrap();
    child.wait().unwrap();
    OsVfs::default().lock(&path).unwrap();
}

#[test]
fn a_read_from_memory_gives_what_the_file_holds_or_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let bytes = random_bytes(3, 100_000);
    fs::write(&path, &bytes).unwrap();
    let file = OsVfs::default().open(&path, Access::Random).unwrap();
    let mut buf = vec![0; 5000];
    file.will_need(40_000, 5000);
    // What was just written is in memory; a system that does not say so may still answer `None`.
    if let Some(len) = file.read_cached_at(&mut buf, 40_000).unwrap() {
        assert_eq!(len, 5000);
        assert!(buf == bytes[40_000..45_000]);
    }
    // Over the end the ordinary read decides.
    assert!(
        file.read_cached_at(&mut buf, 99_000)
            .unwrap()
            .is_none_or(|len| len == 1000)
    );
    assert_eq!(file.read_at(&mut buf, 99_000).unwrap(), 1000);
}

/// What a file system that knows direct reads gives for `wanted`, all read at once.
fn read_direct(
    disk: &OsVfs,
    wanted: &[(&dyn ReadFile, u64, usize)],
) -> Vec<io::Result<Option<Vec<u8>>>> {
    let mut buffers: Vec<_> = wanted
        .iter()
        .map(|(.., len)| vec![0; len.min(&100_000) + DIRECT_EXTRA_BYTES])
        .collect();
    let reads = wanted.iter().zip(&mut buffers);
    let reads = reads.map(|(&(file, offset, len), buf)| DirectRead {
        file,
        offset,
        len,
        buf,
    });
    let begins = disk.read_direct(&mut reads.collect::<Vec<_>>());
    assert_eq!(begins.len(), wanted.len());
    let taken = begins.into_iter().zip(wanted.iter().zip(buffers));
    let taken = taken.map(|(begin, ((.., len), buffer))| {
        begin.map(|begin| begin.map(|begin| buffer[begin..begin + len].to_vec()))
    });
    taken.collect()
}

#[test]
fn direct_reads_give_what_the_files_hold_or_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let disk = OsVfs::default();
    let contents: Vec<_> = (0..3).map(|seed| random_bytes(4 + seed, 100_001)).collect();
    let file = |(n, bytes): (usize, &Vec<u8>)| {
        let path = dir.path().join(n.to_string());
        fs::write(&path, bytes).unwrap();
        disk.open(&path, Access::Random).unwrap()
    };
    let files: Vec<_> = contents.iter().enumerate().map(file).collect();
    let places = [
        (0, 1),
        (4095, 2),
        (4096, 4096),
        (33, 50_000),
        (99_000, 1001),
        // Over the end of the file, after it, and longer than the buffer: none of it, and the
        // others come to no harm.
        (99_000, 1002),
        (200_000, 1),
        (0, 100_001 + DIRECT_EXTRA_BYTES),
    ];
    let all = (0..files.len()).flat_map(|n| places.map(|(offset, len)| (n, offset, len)));
    let all: Vec<_> = all.collect();
    // One by one, and more at once than fit.
    for at_once in [1, 2, 7, 200] {
        let asked: Vec<_> = all.iter().cycle().take(10 * at_once).copied().collect();
        for asked in asked.chunks(at_once) {
            let wanted = asked.iter().map(|(n, at, len)| (&*files[*n], *at, *len));
            let read = read_direct(&disk, &wanted.collect::<Vec<_>>());
            for (&(n, offset, len), read) in asked.iter().zip(read) {
                let expected = contents[n].get(offset as usize..offset as usize + len);
                // A file system that knows no direct reads answers `None`.
                match (read, expected) {
                    (Ok(Some(read)), Some(expected)) => assert!(read == expected),
                    (Ok(Some(_)), None) => panic!("read {len} bytes at {offset}"),
                    (Ok(None), _) => {}
                    (Err(error), expected) => {
                        assert!(expected.is_none(), "{offset}, {len}: {error}");
                    }
                }
            }
        }
    }
}

#[test]
fn many_threads_read_directly() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let bytes = random_bytes(9, 1 << 20);
    fs::write(&path, &bytes).unwrap();
    let disk = OsVfs::default();
    let file = disk.open(&path, Access::Random).unwrap();
    let _limit = limit("readers");
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (disk, file, bytes) = (&disk, &*file, &bytes);
            scope.spawn(move || {
                let mut rng = SmallRng::seed_from_u64(seed);
                for _ in 0..50 {
                    let places = (0..rng.random_range(2..100))
                        .map(|_| (file, rng.random_range(0..1_000_000), 1000));
                    let places: Vec<_> = places.collect();
                    for ((_, at, len), read) in places.iter().zip(read_direct(disk, &places)) {
                        let expected = &bytes[*at as usize..][..*len];
                        assert!(read.unwrap().is_none_or(|read| read == expected));
                    }
                }
            });
        }
    });
}

#[test]
fn a_file_that_is_gone_cannot_be_read_directly_for_the_first_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, [1; 5000]).unwrap();
    let disk = OsVfs::default();
    let file = disk.open(&path, Access::Random).unwrap();
    fs::remove_file(&path).unwrap();
    let read = read_direct(&disk, &[(&*file, 0, 1)]).remove(0);
    assert_eq!(read.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(file.read_at(&mut [0; 5], 0).unwrap(), 5);
}

#[test]
fn a_page_is_shared_with_whoever_opens_it_and_held_until_it_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let vfs = OsVfs::default();
    let (path, moved) = (dir.path().join("page.tmp"), dir.path().join("page"));
    assert!(vfs.open_page(&moved).is_err());
    let page = vfs.create_page(&path, b"header").unwrap().unwrap();
    assert!(vfs.create_page(&path, b"").is_err(), "it is there");
    vfs.rename(&path, &moved).unwrap();
    let other = vfs.open_page(&moved).unwrap();
    assert_eq!(&other.header()[..6], b"header");
    assert!(other.is_held().unwrap() && other.is_shared());
    for (at, word) in [(0, 7), (6, u64::MAX), (0, 8)] {
        page.store(at, word);
        assert_eq!((page.load(at), other.load(at)), (word, word));
    }
    assert!(page.is_held().unwrap(), "also for itself");
    assert!(other.is_held().unwrap(), "asking changes nothing");
    // Another page takes the name; whoever has this one keeps it.
    let next = vfs.create_page(&path, b"next").unwrap().unwrap();
    vfs.rename(&path, &moved).unwrap();
    page.release();
    assert!(!other.is_held().unwrap());
    assert_eq!(other.load(0), 8);
    let other = vfs.open_page(&moved).unwrap();
    assert!(other.is_held().unwrap());
    assert_eq!((&other.header()[..4], other.load(0)), (&b"next"[..], 0));
    drop(next);
    assert!(!other.is_held().unwrap());
    std::fs::write(&moved, b"short").unwrap();
    assert!(vfs.open_page(&moved).is_err());
}
