//! The WAL segments that are still needed, and making them durable in order.
//!
//! Invariants: a segment is never synced before all earlier ones, so what is durable is a prefix of
//! the write order. A segment's name is made durable before its bytes count. While the log is
//! copied ([`WalSync::hold`]) no segment is removed or written over.
//!
//! Locks: `syncing` is held over the syncs themselves; `segments` for a look or a change, under it
//! or alone, so that a memtable can be sealed while the log is being synced. Both are taken under
//! the commit lock or without it. What gives up a segment or makes it the spare has `syncing`, too:
//! no segment is written over while it is being synced. `durable` is taken last and briefly.

#[cfg(all(test, unikv_model = "loom"))]
mod models;
#[cfg(test)]
mod tests;

use crate::base::keys::{FileNumber, FileUid, SeqNo};
use crate::base::seeded::{seeded, slip};
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::base::sync::{FairMutex, Mutex, Weakness, is_weak};
use crate::error::{Error, Result};
use crate::log::{DurablePoint, DurableSegment, SegmentEnd, WalWriter, covered_until};
use crate::vfs::SyncFile;
use crate::vfs::file_store::FileStore;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A segment of the WAL.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: FileNumber,
    pub(crate) uid: FileUid,
    /// Everything up to this number was before it.
    pub(crate) base: SeqNo,
    path: PathBuf,
    /// Of an earlier process. A sync of it may have failed then, and a later one would report a
    /// success that means nothing: what it holds is made durable by a flush.
    pub(super) is_recovered: bool,
    /// `None`: nothing is left to be synced.
    handle: Mutex<Option<Arc<dyn SyncFile>>>,
    /// Bytes that have reached the kernel.
    pub(super) end: AtomicU64,
    /// Bytes known durable.
    pub(super) durable: AtomicU64,
    /// Whether the segment's name is durable.
    named: AtomicBool,
    /// How long the file was before.
    remains: u64,
}

/// A segment that nobody needs any more, below the durable low-water mark, to be written over: its
/// blocks and pages are there already, so a write need not allocate them, a sync changes no length,
/// and what is written over before the system has written it back never reaches the device. Only a
/// segment that this process has written, all of whose syncs have succeeded, becomes the spare. One
/// is enough: it is taken when a memtable is sealed, and the next one is there when that has been
/// flushed. More would only hold memory of the page cache.
#[derive(Debug)]
struct Spare {
    path: PathBuf,
    /// How long the file is.
    bytes: u64,
}

impl Segment {
    /// A segment that this process has begun, over a file of `remains` bytes.
    pub(crate) fn of(wal: &WalWriter, base: SeqNo, remains: u64) -> Arc<Segment> {
        let (path, handle) = (wal.path().to_owned(), wal.sync_handle());
        let segment_end = wal.segment_end();
        Segment::with(segment_end, base, path, Some(handle), remains)
    }

    /// A segment of an earlier process.
    pub(crate) fn recovered(end: SegmentEnd, base: SeqNo, path: PathBuf) -> Arc<Segment> {
        Segment::with(end, base, path, None, 0)
    }

    fn with(
        segment_end: SegmentEnd,
        base: SeqNo,
        path: PathBuf,
        handle: Option<Arc<dyn SyncFile>>,
        remains: u64,
    ) -> Arc<Segment> {
        let SegmentEnd { number, uid, .. } = segment_end;
        let (end, durable) = (AtomicU64::new(segment_end.end), AtomicU64::new(0));
        let named = AtomicBool::new(false);
        Arc::new(Segment {
            number,
            uid,
            base,
            path,
            is_recovered: handle.is_none(),
            handle: Mutex::new(handle),
            end,
            durable,
            named,
            remains,
        })
    }

    /// How long the file is.
    pub(super) fn file_bytes(&self) -> u64 {
        let end = self.end.load(Ordering::Relaxed);
        match self.remains {
            0 => end,
            remains => covered_until(end).max(remains),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that have reached the kernel.
    pub(crate) fn end(&self) -> u64 {
        let durable = || self.durable.load(Ordering::Relaxed);
        slip!(
            CheckpointOfDurableLog,
            durable(),
            self.end.load(Ordering::Acquire)
        )
    }

    /// Notes that everything below `end` has reached the kernel.
    pub(crate) fn written(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }

    /// Closes the file, to which nothing more is written and of which nothing is left to be synced.
    pub(super) fn close(&self) {
        drop(self.handle.lock().take());
    }

    fn sync(&self, store: &FileStore) -> Result<()> {
        if self.is_recovered {
            let cause = "recovered writes are not in tables yet";
            return Err(Error::writes_suspended(
                cause,
                "retry once they have been flushed",
            ));
        }
        if !self.named.load(Ordering::Relaxed) && !seeded!(SegmentNameUnsynced) {
            store.sync_directory()?;
            self.named.store(true, Ordering::Relaxed);
        }
        let end = self.end.load(Ordering::Acquire);
        if self.durable.load(Ordering::Relaxed) < end {
            let handle = self.handle.lock().clone();
            let handle = handle.ok_or_else(|| Error::internal("a closed segment of the log"))?;
            handle
                .sync()
                .or_else(|e| slip!(RetryFailedSync, handle.sync(), Err(e)))
                .map_err(|e| Error::io("sync", &self.path, e))?;
            let end = if is_weak(Weakness::MarkTooHigh) {
                self.end.load(Ordering::Acquire)
            } else {
                end
            };
            self.durable.store(end, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
pub(super) struct Segments {
    /// Oldest first.
    pub(super) list: VecDeque<Arc<Segment>>,
    spare: Option<Spare>,
    /// The sync that failed: none is tried again, for the system may have dropped the bytes and
    /// would then report a success that means nothing.
    failed: Option<Error>,
    /// How many hold the segments.
    holders: usize,
    /// Segments that nobody needs but the holders.
    retired: Vec<Spare>,
    /// Segments that only those need that follow the changes.
    pub(super) window: Window,
}

/// See [`super::change_window`].
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Segments and large values have at most this many bytes; 0: there is no window.
    pub(super) most_bytes: u64,
    /// Of large values.
    pub(super) file_bytes: u64,
    /// Everything up to this number may be gone.
    pub(super) from: SeqNo,
    /// Oldest first.
    pub(super) past: VecDeque<Arc<Segment>>,
}

/// A segment that was begun, to be written and to be synced.
pub(crate) type Begun = (WalWriter, Arc<Segment>);

/// The segments from the oldest needed to the one being written.
#[derive(Debug, Default)]
pub(crate) struct WalSync {
    /// Syncs come one after the other.
    syncing: FairMutex<()>,
    pub(super) segments: Mutex<Segments>,
    /// What is known to be durable.
    durable: Mutex<Option<DurableSegment>>,
}

impl WalSync {
    /// Begins segment `number`, the newest, after `prev`: over the spare, if there is one. `edits`
    /// are durable in the manifest.
    ///
    /// After an error nothing more may be written to the predecessor.
    pub(crate) fn begin(
        &self,
        store: &FileStore,
        number: FileNumber,
        prev: Option<SegmentEnd>,
        edits: u64,
        base: SeqNo,
    ) -> Result<Begun> {
        let spare = self.take_spare();
        let over = spare.as_ref().map(|spare| &*spare.path);
        let begun = WalWriter::create(store, number, prev, edits, self.durable_point(), over);
        let recycled = begun.as_ref().is_ok_and(WalWriter::is_recycled);
        let remove = |path: &Path| drop(store.env().vfs.remove(path));
        if let Some(spare) = spare.as_ref().filter(|_| !recycled) {
            remove(&spare.path);
        }
        let wal = begun?;
        let remains = spare.filter(|_| recycled).map_or(0, |spare| spare.bytes);
        let segment = Segment::of(&wal, base, remains);
        self.push(Arc::clone(&segment));
        Ok((wal, segment))
    }

    /// Adds the newest segment.
    pub(crate) fn push(&self, segment: Arc<Segment>) {
        self.segments.lock().list.push_back(segment);
    }

    /// Makes everything that has reached the kernel durable. After an error nothing may be assumed
    /// of the unsynced bytes; the caller poisons the WAL, and no segment is synced again.
    pub(crate) fn sync(&self, store: &FileStore) -> Result<()> {
        let _syncing = self.syncing.lock();
        let list = {
            let segments = self.segments.lock();
            if let Some(failed) = &segments.failed {
                return Err(failed.clone());
            }
            segments.list.clone()
        };
        let newest = list.len().saturating_sub(1);
        let first = slip!(SyncNewestAlone, newest, 0);
        for (nth, segment) in list.into_iter().enumerate().skip(first) {
            if let Err(error) = segment.sync(store) {
                self.segments.lock().failed = Some(error.clone());
                return Err(error);
            }
            let offset = segment.durable.load(Ordering::Relaxed);
            let point = DurablePoint {
                file: segment.number,
                offset,
            };
            let uid = segment.uid;
            *self.durable.lock() = Some(DurableSegment { point, uid });
            // What follows another segment is written no more.
            if nth < newest {
                segment.close();
            }
        }
        Ok(())
    }

    /// Whether segments of an earlier process are still needed.
    pub(crate) fn has_recovered(&self) -> bool {
        self.segments
            .lock()
            .list
            .front()
            .is_some_and(|s| s.is_recovered)
    }

    /// Whether the log may be said to begin with this segment: not with one of an earlier process,
    /// which may have failed to make its name durable, and no sync makes up for that.
    pub(crate) fn may_begin_with(&self, number: FileNumber) -> bool {
        let segments = self.segments.lock();
        let mut recovered = segments.list.iter().filter(|s| s.is_recovered);
        !recovered.any(|segment| segment.number == number)
    }

    /// Everything before this durable point is durable.
    pub(crate) fn durable_point(&self) -> Option<DurablePoint> {
        self.durable_segment().map(|durable| durable.point)
    }

    /// The same, and of which file that is said.
    pub(crate) fn durable_segment(&self) -> Option<DurableSegment> {
        *self.durable.lock()
    }

    /// Whether anything written is not yet known durable.
    pub(crate) fn is_dirty(&self) -> bool {
        let segments = self.segments.lock();
        let dirty =
            |s: &Arc<Segment>| s.durable.load(Ordering::Relaxed) < s.end.load(Ordering::Acquire);
        segments.list.iter().any(dirty)
    }

    /// Forgets segments below `low_water`, which is durable, and returns the paths of those to be
    /// removed: the spare has at most `spare_bytes`.
    pub(crate) fn retire_below(&self, low_water: FileNumber, spare_bytes: u64) -> Vec<PathBuf> {
        let _syncing = self.syncing.lock();
        let mut segments = self.segments.lock();
        let retired = segments.list.iter().take_while(|s| s.number < low_water);
        let retired = retired.count();
        let retired: Vec<_> = segments.list.drain(..retired).collect();
        let mut removed = Vec::new();
        for segment in segments.pass_window(retired) {
            let (path, bytes) = (segment.path.clone(), segment.file_bytes());
            if segments.holders > 0 {
                segments.retired.push(Spare { path, bytes });
                continue;
            }
            let is_good = !segment.is_recovered && segments.failed.is_none();
            // The newest is kept: what is left of the log is then a part of it without gaps.
            if is_good && bytes <= spare_bytes {
                removed.extend(
                    segments
                        .spare
                        .replace(Spare { path, bytes })
                        .map(|s| s.path),
                )
            } else {
                removed.push(path)
            }
        }
        removed
    }

    /// The segment to be written over. It is the caller's.
    fn take_spare(&self) -> Option<Spare> {
        self.segments.lock().spare.take()
    }

    /// The path of the spare, for removal.
    pub(crate) fn drop_spare(&self) -> Option<PathBuf> {
        self.take_spare().map(|spare| spare.path)
    }

    /// Starts again with no segment, once everything in the old ones is in tables. Returns the
    /// paths of the old ones for removal. The change window begins after `last`: what an append has
    /// left that failed may stand in the old ones.
    pub(crate) fn restart(&self, last: SeqNo) -> Vec<PathBuf> {
        let _syncing = self.syncing.lock();
        let mut segments = self.segments.lock();
        segments.failed = None;
        let spare = segments.spare.take().map(|spare| spare.path);
        let mut old: Vec<_> = segments.window.clear(last).into();
        old.extend(segments.list.drain(..));
        if segments.holders > 0 {
            let held = old.iter().map(|segment| Spare {
                path: segment.path.clone(),
                bytes: segment.file_bytes(),
            });
            segments.retired.extend(held);
            return spare.into_iter().collect();
        }
        let old = old.into_iter().map(|segment| segment.path.clone());
        old.chain(spare).collect()
    }

    /// From now on the files of segments stay as they are, until as many calls of
    /// [`WalSync::release`].
    pub(crate) fn hold(&self) {
        self.segments.lock().holders += 1;
    }

    /// Returns the paths of segments that nobody needs any more, for removal.
    pub(crate) fn release(&self) -> Vec<PathBuf> {
        let mut segments = self.segments.lock();
        segments.holders = segments.holders.saturating_sub(1);
        if segments.holders > 0 {
            return Vec::new();
        }
        let retired = std::mem::take(&mut segments.retired).into_iter();
        retired.map(|segment| segment.path).collect()
    }

    /// The segments that are needed, oldest first.
    pub(crate) fn listed(&self) -> Vec<Arc<Segment>> {
        self.segments.lock().list.iter().cloned().collect()
    }

    /// Bytes of the segments' files.
    pub(crate) fn bytes(&self) -> u64 {
        let segments = self.segments.lock();
        let needed = segments.window.past.iter().chain(&segments.list);
        let needed: u64 = needed.map(|s| s.file_bytes()).sum();
        let retired = segments.spare.iter().chain(&segments.retired);
        needed + retired.map(|segment| segment.bytes).sum::<u64>()
    }
}
