//! Syncs beside each other, under loom: a caller that learns that its write is durable has it on
//! the disk.

use super::*;
use crate::base::keys::DatabaseId;
use crate::testing::loom_model::{beside, fails, holds};
use crate::vfs::Env;
use crate::vfs::os::OsRuntime;
use crate::vfs::sim::SimVfs;
use std::io;

/// A file that knows how long it is, and how much of it is durable.
#[derive(Debug, Default)]
struct File {
    len: AtomicU64,
    durable: AtomicU64,
}

impl SyncFile for File {
    fn sync(&self) -> io::Result<()> {
        let len = self.len.load(Ordering::Acquire);
        self.durable.fetch_max(len, Ordering::AcqRel);
        Ok(())
    }
}

fn store() -> Arc<FileStore> {
    let env = Env {
        vfs: Arc::new(SimVfs::new()),
        runtime: Arc::new(OsRuntime::default()),
    };
    FileStore::new(env, "/db".into(), DatabaseId([1; 16]), 1)
}

/// A leader that appends after what is not yet synced and then syncs, and a caller who syncs
/// beside it.
fn leader_beside_a_sync() {
    let (store, file) = (store(), Arc::new(File::default()));
    let handle: Arc<dyn SyncFile> = Arc::clone(&file) as _;
    let end = SegmentEnd {
        number: FileNumber(1),
        uid: FileUid(1),
        end: 0,
        chain: 0,
    };
    let segment = Segment::with(end, SeqNo(0), "/db/1".into(), Some(handle), 0);
    segment.named.store(true, Ordering::Relaxed);
    let wal = Arc::new(WalSync::default());
    wal.push(Arc::clone(&segment));
    let (led, its_store, its_file) = (Arc::clone(&wal), Arc::clone(&store), Arc::clone(&file));
    file.len.store(1, Ordering::Release);
    segment.written(1);
    let leader = move || {
        its_file.len.store(2, Ordering::Release);
        segment.written(2);
        led.sync(&its_store).unwrap();
        assert_eq!(its_file.durable.load(Ordering::Acquire), 2);
    };
    let caller = move || {
        wal.sync(&store).unwrap();
        let commit_tag = wal.durable_point().unwrap();
        assert!(file.durable.load(Ordering::Acquire) >= commit_tag.offset);
    };
    beside(leader, caller);
}

#[test]
fn what_counts_as_durable_is() {
    holds(leader_beside_a_sync);
    fails(Weakness::MarkTooHigh, leader_beside_a_sync);
}
