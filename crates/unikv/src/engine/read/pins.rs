//! The views that iterators hold, and releasing them on request.
//!
//! An iterator needs a view only while it gathers a batch. Between two batches it may be asked to
//! release: its next batch then comes from the view of that time, from where the last one ended. It
//! sees the same, because its sequence number is registered as a snapshot's is, from before its
//! first view was loaded to its end, so that no job drops a version that it needs.
//!
//! Locks: `held` and the position in each [`Hold`] are leaf locks. A position is locked by its
//! iterator while a batch is gathered, by others only with `try_lock`.

use crate::base::keys::{FileNumber, SeqNo};
use crate::base::sync::atomic::Ordering;
use crate::engine::memory::IteratorBytes;
use crate::engine::read::ReadState;
use crate::engine::read::hold::Hold;
use crate::engine::read::moment::Registered;
use crate::engine::read::views::{Held, Position};
use crate::engine::snapshots::Holder;
use crate::engine::stats::holders::{ClosingReport, HolderKind, HolderStats, StillOpen};
use crate::engine::stats::pins::PinStats;
use crate::error::{Error, Result};
use crate::version::Version;
use bytes::Bytes;
use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

impl ReadState {
    pub(crate) fn pin_stats(&self, version: &Arc<Version>) -> PinStats {
        let figures = self.core.snapshots.figures();
        let (iterators, views) = self.views.count();
        let (files, bytes) = self.core.store.pinned();
        let visible = self.visible_seq.load(Ordering::Acquire);
        let (oldest, since) = figures.oldest.unzip();
        let space = self.space.space_of(version, self.space.horizon());
        let age = |since| self.core.store.env().runtime.now().saturating_sub(since);
        PinStats {
            snapshots: figures.snapshots,
            iterators,
            views,
            oldest_seq: oldest.map(|seq| seq.0),
            oldest_behind: oldest.map_or(0, |seq| visible.saturating_sub(seq.0)),
            oldest_age: since.map_or(Duration::ZERO, age),
            files,
            bytes,
            version_bytes: space.kept_by_snapshots(),
        }
    }
}

impl ReadState {
    /// Snapshots, transactions and iterators, the oldest first; `version` is the present one.
    pub(crate) fn holders(&self, version: &Arc<Version>) -> Vec<HolderStats> {
        let now = self.core.now();
        let visible = self.visible_seq.load(Ordering::Acquire);
        let of = |kind, id, seq: SeqNo, since| HolderStats {
            kind,
            id,
            age: now.saturating_sub(since),
            seq: seq.0,
            behind: visible.saturating_sub(seq.0),
            holds_view: false,
            pinned_bytes: 0,
        };
        let snapshots = self.core.snapshots.with_iterators().into_iter();
        let snapshots = snapshots.map(|(holder, seq, since)| of(kind(holder), seq.0, seq, since));
        let mut holders: Vec<HolderStats> = snapshots.collect();
        let iterators: Vec<(u64, Arc<Held>)> = {
            let held = self.views.held.lock();
            held.iter()
                .map(|(id, held)| (*id, Arc::clone(held)))
                .collect()
        };
        let mut pinned = Pinned::beside(version);
        for (id, held) in iterators {
            let position = |position: &Option<Position>| {
                position.as_ref().map(|p| Arc::clone(&p.view.version))
            };
            // One that is in use has a view, most often the present one.
            let seen = held.hold.look(position);
            let mut holder = of(HolderKind::Iterator, id, held.seq, held.since);
            holder.holds_view = seen.as_ref().is_none_or(Option::is_some);
            let seen = seen.flatten();
            holder.pinned_bytes = seen.map_or(0, |version| pinned.bytes(&version));
            holders.push(holder);
        }
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.age));
        holders
    }

    /// What has not been dropped yet.
    pub(crate) fn still_open(&self) -> ClosingReport {
        let now = self.core.now();
        let of = |kind, since| StillOpen {
            kind,
            age: now.saturating_sub(since),
        };
        let owners = self.core.snapshots.owners().into_iter();
        let mut still_open: Vec<StillOpen> = owners
            .map(|(holder, since)| of(kind(holder), since))
            .collect();
        let held = self.views.held.lock();
        // The others have registered their moments themselves.
        let iterators = held.values().filter(|held| held.has_owner);
        still_open.extend(iterators.map(|held| of(HolderKind::Iterator, held.since)));
        drop(held);
        still_open.sort_by_key(|open| std::cmp::Reverse(open.age));
        ClosingReport { still_open }
    }
}

fn kind(holder: Holder) -> HolderKind {
    match holder {
        Holder::Snapshot => HolderKind::Snapshot,
        Holder::Transaction => HolderKind::Transaction,
        Holder::Iterator => HolderKind::Iterator,
    }
}

/// What versions hold that are not the present one.
struct Pinned {
    present: Arc<Version>,
    /// Counted once for each version, which many iterators may hold.
    counted: HashMap<*const Version, u64>,
}

impl Pinned {
    fn beside(present: &Arc<Version>) -> Pinned {
        Pinned {
            present: Arc::clone(present),
            counted: HashMap::new(),
        }
    }

    /// Bytes of the files of `version` that the present one has not.
    fn bytes(&mut self, version: &Arc<Version>) -> u64 {
        if Arc::ptr_eq(version, &self.present) {
            return 0;
        }
        let present = &self.present;
        let count = || {
            let key_tables: HashSet<_> = present.key_tables().map(|t| t.meta().number).collect();
            let is_gone = |n: FileNumber| present.record_file(n).is_none();
            let records = version.record_files().iter().map(|f| f.meta());
            let records = records.filter(|meta| is_gone(meta.number)).map(|m| m.len);
            let mut seen = HashSet::new();
            let tables = version.key_tables().map(|t| t.meta());
            let tables =
                tables.filter(|m| !key_tables.contains(&m.number) && seen.insert(m.number));
            records.sum::<u64>() + tables.map(|m| m.len).sum::<u64>()
        };
        *self
            .counted
            .entry(Arc::as_ptr(version))
            .or_insert_with(count)
    }
}

/// An iterator's place among the views.
pub(crate) struct ViewHolder {
    /// Keeps the versions that the iterator sees.
    moment: Arc<Registered>,
    id: u64,
    /// Empty before the first batch, and after releasing it.
    held: Arc<Held>,
}

impl ViewHolder {
    pub(crate) fn new(moment: Arc<Registered>) -> ViewHolder {
        let read = moment.read();
        let id = read.views.next.fetch_add(1, Ordering::Relaxed);
        let held = Arc::new(Held {
            hold: Hold::default(),
            seq: moment.seq(),
            since: moment.held_since(),
            has_owner: moment.has_owner(),
        });
        if read.core.process.is_this() {
            read.views.held.lock().insert(id, Arc::clone(&held));
        }
        ViewHolder { moment, id, held }
    }

    /// What the iterator sees the database at.
    pub(crate) fn moment(&self) -> &Registered {
        &self.moment
    }

    fn read(&self) -> &ReadState {
        self.moment.read()
    }

    /// Calls `read` with a position, which nobody takes away meanwhile. It has no cursors if it is
    /// new.
    pub(crate) fn with_position<T>(
        &self,
        read: impl FnOnce(&mut Position) -> Result<T>,
    ) -> Result<T> {
        self.read().core.check_open()?;
        self.held.hold.with(|position| match position {
            Some(position) => read(position),
            none => read(none.insert(Position {
                view: self.read().view.load_full(),
                front: None,
                back: None,
                bytes: IteratorBytes::new(&self.read().core.memory),
            })),
        })
    }

    /// The value of a key that the iterator has met. Its versions are kept, so any view will do.
    pub(crate) fn look_up(&self, key: &[u8]) -> Result<Bytes> {
        let read = self.read();
        read.core.check_open()?;
        let view = read.view.load_full();
        let value = view.get(key, &self.moment.at(), &read.reads)?;
        value.ok_or_else(|| Error::internal("a value that an iterator has met is gone"))
    }

    /// Forgets a cursor, which is then made again.
    pub(crate) fn forget(&self, forget: impl FnOnce(&mut Position)) {
        if !self.read().core.process.is_this() {
            return;
        }
        self.held
            .hold
            .with(|position| position.as_mut().map(forget));
    }

    pub(crate) fn release(&self) {
        if self.read().core.process.is_this() {
            self.held.hold.release();
        }
    }
}

impl Drop for ViewHolder {
    fn drop(&mut self) {
        if !self.read().core.process.is_this() {
            // Its view is a copy of the parent's, whose files would be removed with it.
            mem::forget(Arc::clone(&self.held));
            return;
        }
        self.read().views.held.lock().remove(&self.id);
        self.held.hold.release();
    }
}

#[cfg(test)]
mod tests {
    use crate::Tuning;
    use crate::engine::tests::{Machine, Model, churn, small};
    use crate::{Clustering, Db, ErrorKind, Iter};
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    fn files(machine: &Machine) -> usize {
        use crate::vfs::Vfs;
        machine.disk.list("/db".as_ref()).unwrap().len()
    }

    fn pair(
        entry: Option<crate::Result<(crate::Bytes, crate::Bytes)>>,
    ) -> Option<(Vec<u8>, Vec<u8>)> {
        entry.map(|e| e.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap())
    }

    #[test]
    fn released_iterators_go_on_as_before_while_keys_are_merged_moved_and_split() {
        for clustering in [Clustering::LeastWriting, Clustering::Automatic] {
            let machine = Machine::new(21);
            let options = small()
                .clustering(clustering)
                .tuning(Tuning::default().partition_bytes(24 << 10));
            let (db, runtime) = machine.open(options.max_space_amp(1.1));
            let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(21));
            churn(&db, &mut model, &mut rng, 2000);
            let snapshot = db.snapshot();
            let ranges = [db.iter(), db.iter(), snapshot.iter(), snapshot.iter()];
            drop(snapshot);
            let mut iters: Vec<(Iter, Vec<_>)> = ranges
                .into_iter()
                .map(|iter| (iter, model.clone().into_iter().collect::<Vec<_>>()))
                .collect();
            while iters.iter().any(|(_, left)| !left.is_empty()) {
                churn(&db, &mut model, &mut rng, 60);
                runtime.run_one();
                for (iter, left) in &mut iters {
                    for _ in 0..rng.random_range(0..6) {
                        if rng.random_bool(0.5) {
                            let expected = (!left.is_empty()).then(|| left.remove(0));
                            assert_eq!(pair(iter.next()), expected);
                        } else {
                            assert_eq!(pair(iter.next_back()), left.pop());
                        }
                    }
                    if rng.random_range(0..4) == 0 {
                        iter.release();
                    }
                }
                if rng.random_range(0..4) == 0 {
                    db.release_views();
                    assert_eq!(db.stats().pins.views, 0);
                }
            }
            let stats = db.stats();
            assert!(stats.merges > 5 && stats.splits > 1, "{stats:?}");
            assert_eq!((stats.pins.snapshots, stats.pins.iterators), (1, 4));
            assert!(stats.gcs > 0, "{stats:?}");
        }
    }

    #[test]
    fn a_released_iterator_can_be_moved_back() {
        let machine = Machine::new(22);
        let (db, _) = machine.open(small());
        for i in 0..40 {
            db.put(format!("key{i:02}"), "then").unwrap();
        }
        let mut iter = db.iter();
        let key = |entry| pair(entry).map(|(k, v)| (String::from_utf8(k).unwrap(), v));
        let then = |i: u32| Some((format!("key{i:02}"), b"then".to_vec()));
        assert_eq!(key(iter.next()), then(0));
        assert_eq!(key(iter.next_back()), then(39));
        for i in 0..40 {
            db.put(format!("key{i:02}"), "now").unwrap();
        }
        db.delete("key20").unwrap();
        db.compact().unwrap();
        iter.release();
        iter.seek("key20");
        assert_eq!(key(iter.next()), then(20));
        iter.release();
        iter.seek("key05");
        db.compact().unwrap();
        for i in 5..39 {
            db.release_views();
            assert_eq!(key(iter.next()), then(i));
        }
        assert_eq!(key(iter.next()), None);
    }

    #[test]
    fn what_only_an_iterator_keeps_is_reported_and_goes_with_it() {
        let machine = Machine::new(23);
        let (db, runtime) = machine.open(small());
        let mut model = Model::new();
        churn(&db, &mut model, &mut SmallRng::seed_from_u64(23), 1000);
        db.wait_until_idle().unwrap();
        let mut iter = db.iter();
        assert_eq!(db.stats().pins.views, 0, "not begun");
        iter.next().unwrap().unwrap();
        for key in model.keys() {
            db.delete(key).unwrap();
        }
        db.compact().unwrap();
        let pins = db.stats().pins;
        assert_eq!((pins.iterators, pins.views), (1, 1));
        assert!(pins.files > 0 && pins.bytes > 0, "{pins:?}");
        assert_eq!(pins.oldest_behind, model.len() as u64);
        let before = files(&machine);
        db.release_views();
        let pins = db.stats().pins;
        assert_eq!((pins.iterators, pins.views, pins.files), (1, 0, 0));
        runtime.run_until_idle();
        assert!(files(&machine) < before, "unlinked without a write");
        assert_eq!(iter.count(), model.len() - 1);
        assert_eq!(db.stats().pins.oldest_seq, None);
    }

    #[test]
    fn an_iterator_that_outlives_the_database_says_so() {
        let machine = Machine::new(24);
        let (db, _) = machine.open(small());
        for i in 0..40 {
            db.put(format!("key{i:02}"), "value").unwrap();
        }
        let mut iter = db.iter();
        iter.next().unwrap().unwrap();
        Db::close(db).unwrap();
        let error = iter.find_map(Result::err).unwrap();
        assert_eq!(error.kind(), ErrorKind::Closed);
        assert!(iter.next().is_none());
    }
}
