use super::{Segment, WalSync};
use crate::Tuning;
use crate::base::keys::{FileNumber, FileUid, SeqNo};
use crate::engine::tests::{Machine, Model, same, small};
use crate::log::SegmentEnd;
use crate::vfs::SyncFile;
use crate::vfs::sim::{Fault, Op, SimRuntime, SimVfs};
use crate::{Batch, Db, ErrorKind};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const MEMTABLE_BYTES: u64 = 4 << 10;

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "wal")
}

fn logs(disk: &SimVfs) -> usize {
    disk.file_names().iter().filter(|path| is_log(path)).count()
}

/// A database with small memtables, of which `memtables` have been filled and flushed.
fn filled(seed: u64, memtables: usize) -> (Machine, Db, Arc<SimRuntime>, Model) {
    let machine = Machine::new(seed);
    let (db, runtime) =
        machine.open(small().tuning(Tuning::default().memtable_bytes(MEMTABLE_BYTES)));
    let mut model = Model::new();
    fill(&db, &mut model, memtables);
    (machine, db, runtime, model)
}

/// Writes so much that memtables are sealed and flushed, one after the other.
fn fill(db: &Db, model: &mut Model, memtables: usize) {
    for _ in 0..memtables {
        for _ in 0..8 {
            let key = format!("key{:06}", model.len());
            let value = vec![model.len() as u8; 300];
            db.put(&key, &value).unwrap();
            model.insert(key.into_bytes(), value);
        }
        db.flush().unwrap();
    }
}

/// How many logs are created from now on, and how many opened for writing over them.
fn count_begun(machine: &Machine) -> [Arc<AtomicU64>; 2] {
    let counts = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
    let [created, over] = counts.clone();
    machine.disk.set_fault(Box::new(move |call| {
        match call.op {
            Op::Create if is_log(call.path) => drop(created.fetch_add(1, Ordering::Relaxed)),
            Op::Overwrite => drop(over.fetch_add(1, Ordering::Relaxed)),
            _ => {}
        }
        Fault::None
    }));
    counts
}

fn disk_bytes(disk: &SimVfs) -> u64 {
    let len = |path: &PathBuf| disk.read_file(path).unwrap().len() as u64;
    let counts = |path: &&PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        !["LOCK", "CURRENT", "VISIBLE"].contains(&&*name)
    };
    disk.file_names().iter().filter(counts).map(len).sum()
}

/// A file whose sync lasts until it may end.
#[derive(Debug, Default)]
struct Slow {
    begun: AtomicBool,
    may_end: AtomicBool,
}

impl SyncFile for Slow {
    fn sync(&self) -> io::Result<()> {
        self.begun.store(true, Ordering::Release);
        while !self.may_end.load(Ordering::Acquire) {
            thread::yield_now();
        }
        Ok(())
    }
}

#[test]
fn a_segment_is_begun_while_the_one_before_is_synced() {
    let machine = Machine::new(11);
    let (db, _) = machine.open(small());
    let store = &db.0.engine.core.store;
    let (slow, wal) = (Arc::new(Slow::default()), WalSync::default());
    let segment = |number| {
        let end = SegmentEnd {
            number: FileNumber(number),
            uid: FileUid(1),
            end: 1,
            chain: 0,
        };
        let handle: Arc<dyn SyncFile> = Arc::clone(&slow) as _;
        Segment::with(end, SeqNo(0), "/db/log".into(), Some(handle), 0)
    };
    wal.push(segment(1));
    thread::scope(|scope| {
        let synced = scope.spawn(|| wal.sync(store));
        while !slow.begun.load(Ordering::Acquire) {
            thread::yield_now();
        }
        // With what a leader does that seals a memtable, and `stats`.
        assert!(wal.take_spare().is_none() && wal.is_dirty());
        wal.push(segment(2));
        assert_eq!((wal.bytes(), wal.durable_point()), (2, None));
        slow.may_end.store(true, Ordering::Release);
        synced.join().unwrap().unwrap();
    });
    assert_eq!(wal.durable_point().unwrap().file, FileNumber(1));
    wal.sync(store).unwrap();
    assert_eq!(wal.durable_point().unwrap().file, FileNumber(2));
}

#[test]
fn the_log_is_written_over_segments_that_have_been_flushed() {
    let (machine, db, runtime, mut model) = filled(1, 2);
    let [created, over] = count_begun(&machine);
    fill(&db, &mut model, 20);
    assert_eq!(created.load(Ordering::Relaxed), 0);
    assert!(over.load(Ordering::Relaxed) >= 20);
    runtime.run_until_idle();
    // The one that is written and the spare; both are reported.
    assert_eq!(logs(&machine.disk), 2);
    assert_eq!(db.stats().disk_bytes, disk_bytes(&machine.disk));
    db.put("last", "1").unwrap();
    model.insert(b"last".to_vec(), b"1".to_vec());

    let mut killed = Machine::new(1);
    killed.disk = machine.disk.process_kill();
    let (reopened, _runtime) = killed.open(small());
    assert_eq!(reopened.recovery().wal_cut, None);
    same(&reopened, &model);
    db.close().unwrap();
    assert_eq!(logs(&machine.disk), 1, "the spare goes when it is closed");
    machine.check();
}

#[test]
fn a_segment_that_a_large_batch_made_long_is_not_kept() {
    let (machine, db, runtime, mut model) = filled(2, 0);
    let mut batch = Batch::new();
    for n in 0..600 {
        let key = format!("many{n:03}");
        batch.put(&key, "1");
        model.insert(key.into_bytes(), b"1".to_vec());
    }
    db.write(&batch).unwrap();
    db.flush().unwrap();
    runtime.run_until_idle();
    assert_eq!(logs(&machine.disk), 1);
    same(&db, &model);
}

#[test]
fn where_an_old_segment_cannot_be_written_over_a_new_one_is_begun() {
    let (machine, db, runtime, mut model) = filled(3, 2);
    machine.disk.set_fault(Box::new(|call| match call.op {
        Op::Overwrite => Fault::Fail(io::ErrorKind::Unsupported),
        _ => Fault::None,
    }));
    fill(&db, &mut model, 5);
    runtime.run_until_idle();
    assert!(logs(&machine.disk) <= 2);
    machine.disk.clear_faults();
    fill(&db, &mut model, 5);
    same(&db, &model);
}

/// What a failed sync left of a segment is not known: it is never written over.
#[test]
fn after_a_failed_sync_the_log_begins_in_a_new_file() {
    let (machine, db, _runtime, mut model) = filled(4, 2);
    machine.disk.set_fault(Box::new(|call| match call.op {
        Op::Sync if is_log(call.path) => Fault::Fail(io::ErrorKind::Other),
        _ => Fault::None,
    }));
    assert_eq!(db.sync().unwrap_err().kind(), ErrorKind::Io);
    let [created, over] = count_begun(&machine);
    db.flush().unwrap();
    db.put("resumed", "1").unwrap();
    model.insert(b"resumed".to_vec(), b"1".to_vec());
    assert_eq!(created.load(Ordering::Relaxed), 1);
    assert_eq!(over.load(Ordering::Relaxed), 0);
    same(&db, &model);
}

#[test]
fn segments_that_are_held_are_neither_removed_nor_written_over() {
    let (machine, db, _runtime, mut model) = filled(9, 2);
    let wal_sync = &db.0.engine.write.wal_sync;
    db.put("held", "value").unwrap();
    wal_sync.hold();
    wal_sync.hold();
    let held = wal_sync.listed();
    let before: Vec<_> = held
        .iter()
        .map(|segment| {
            machine.disk.read_file(segment.path()).unwrap()[..segment.end() as usize].to_vec()
        })
        .collect();
    let [_created, _over] = count_begun(&machine);
    fill(&db, &mut model, 6);
    let bytes = db.stats().disk_bytes;
    assert_eq!(disk_bytes(&machine.disk), bytes, "they are counted");
    for (segment, before) in held.iter().zip(before) {
        let now = machine.disk.read_file(segment.path()).unwrap();
        assert!(now.starts_with(&before), "{:?}", segment.path());
    }
    assert_eq!(
        wal_sync.release(),
        Vec::<PathBuf>::new(),
        "another holds them"
    );
    let released = wal_sync.release();
    assert!(released.len() > 4, "{released:?}");
    db.0.engine.core.store.remove_files(released);
    fill(&db, &mut model, 3);
    assert!(logs(&machine.disk) <= 2);
    model.insert(b"held".to_vec(), b"value".to_vec());
    same(&db, &model);
}

#[test]
fn a_process_that_only_ingests_keeps_two_segments() {
    for window in [0, 1 << 20] {
        let machine = Machine::new(31);
        let (db, _runtime) = machine.open(small().change_window_bytes(window));
        let mut model = Model::new();
        for i in 0..30_u32 {
            let key = format!("key{i:04}").into_bytes();
            let entry: crate::Result<_> = Ok((key.clone(), Some(b"value".to_vec())));
            db.ingest_sorted([entry], None).unwrap();
            model.insert(key, b"value".to_vec());
        }
        let listed = db.0.engine.write.wal_sync.listed();
        assert!(listed.len() <= 2, "{}", listed.len());
        assert!(window > 0 || logs(&machine.disk) <= 3);
        same(&db, &model);
        db.put("later", "value").unwrap();
        model.insert(b"later".to_vec(), b"value".to_vec());
        drop(db);
        let (db, _runtime) = machine.open(small().change_window_bytes(window));
        same(&db, &model);
    }
}

#[test]
fn segments_that_are_durable_and_complete_are_closed() {
    let machine = Machine::new(32);
    let (db, _runtime) = machine.open(small().change_window_bytes(1 << 20));
    let write = &db.0.engine.write;
    let wal_sync = &write.wal_sync;
    for i in 0..20_u32 {
        db.put(i.to_be_bytes(), "value").unwrap();
        write.seal(&mut write.commit.lock()).unwrap();
    }
    let open = || {
        let segments = wal_sync.segments.lock();
        let all = segments.window.past.iter().chain(&segments.list);
        all.filter(|segment| segment.handle.lock().is_some())
            .count()
    };
    assert!(wal_sync.listed().len() > 20);
    db.sync().unwrap();
    assert!(open() <= 2, "{}", open());
    // What is flushed goes to the window, and is closed there.
    db.flush().unwrap();
    assert_eq!(wal_sync.segments.lock().window.past.len(), 20);
    assert!(open() <= 2, "{}", open());
    db.sync().unwrap();
}
