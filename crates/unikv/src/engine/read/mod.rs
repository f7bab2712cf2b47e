//! Point reads at a moment: the newest state, or a snapshot's.

mod compressions;
pub(crate) mod cursor;
mod hold;
pub(crate) mod iter;
pub(crate) mod lifetimes;
pub(crate) mod moment;
pub(crate) mod parts;
pub(crate) mod pins;
pub(crate) mod sizes;
pub(crate) mod source;
pub(crate) mod timed;
pub(crate) mod value_reader;
pub(crate) mod views;

use crate::base::account::Reports;
use crate::base::bounds::with_engine_key;
use crate::base::keys::{KeyspaceId, MAX_USER_KEY_LEN, PartitionId, SeqNo};
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{ArcSwap, Guard, Mutex, Weakness, is_weak, order};
use crate::engine::backpressure::Backpressure;
use crate::engine::core::Core;
use crate::engine::read::source::{Point, Source, data_id};
use crate::engine::read::views::Views;
use crate::engine::recent::RecentWrites;
use crate::engine::space::DiskSpace;
use crate::error::{Error, ErrorKind, Result};
use crate::events::TimedOperation;
use crate::key_table::read_terms::ReadTerms;
use crate::options::ReadOptions;
use crate::partition::prefetch::Ahead;
use crate::partition::value_place::Found;
use crate::partition::{ReadCounters, View, Visibility};
use bytes::Bytes;
use std::sync::Arc;

/// Of this many keys of one call the reads are prefetched together.
const PREFETCHED_TOGETHER: usize = 64;
/// When this many keys, the first, are in memory, the others are taken to be.
const IN_MEMORY_ALONE: usize = 2;

/// Refuses a key longer than any can be.
#[inline(always)]
fn check_len(key: &[u8]) -> Result<()> {
    if key.len() <= MAX_USER_KEY_LEN {
        Ok(())
    } else {
        Err(too_long(key))
    }
}

#[cold]
fn too_long(key: &[u8]) -> Error {
    let what = format!("a key of {} bytes is longer than any can be", key.len());
    let remedy = format!("use at most {MAX_USER_KEY_LEN} bytes");
    Error::invalid(what, remedy)
}

/// The component that publishes what is readable and reads it.
pub(crate) struct ReadState {
    pub(crate) core: Arc<Core>,
    space: Arc<DiskSpace>,
    backpressure: Arc<Backpressure>,
    pub(crate) recent: Arc<RecentWrites>,
    pub(crate) view: ArcSwap<View>,
    view_lock: Mutex<()>,
    /// Every write up to this sequence number is in the view.
    pub(crate) visible_seq: AtomicU64,
    pub(crate) views: Views,
    pub(crate) reads: ReadCounters,
    /// The partitions to which scans have charged so much that it is time to look.
    pub(crate) charged: Reports<PartitionId>,
}

impl ReadState {
    pub(crate) fn new(
        core: &Arc<Core>,
        space: &Arc<DiskSpace>,
        backpressure: &Arc<Backpressure>,
        view: View,
        last_seq: SeqNo,
    ) -> Arc<ReadState> {
        Arc::new(ReadState {
            core: Arc::clone(core),
            space: Arc::clone(space),
            backpressure: Arc::clone(backpressure),
            recent: RecentWrites::new(core),
            view: ArcSwap::from_pointee(view),
            view_lock: Mutex::new(()),
            visible_seq: AtomicU64::new(last_seq.0),
            views: Views::default(),
            reads: ReadCounters::default(),
            charged: Reports::default(),
        })
    }

    /// What `options` ask of reads from now on.
    pub(crate) fn terms(&self, options: &ReadOptions) -> Option<ReadTerms> {
        let runtime = &self.core.store.env().runtime;
        ReadTerms::new(options.fill_cache, options.timeout, runtime)
    }

    /// The value of `key`.
    pub(crate) fn get(&self, source: Source, key: &[u8]) -> Result<Option<Bytes>> {
        if self.core.meter.is_on() {
            self.get_measured(source, key)
        } else {
            self.get_unmeasured(source, key)
        }
    }

    #[cold]
    fn get_measured(&self, source: Source, key: &[u8]) -> Result<Option<Bytes>> {
        let get = || self.get_unmeasured(source, key);
        self.timed(TimedOperation::Get, || self.named(source, key), get)
    }

    fn get_unmeasured(&self, source: Source, key: &[u8]) -> Result<Option<Bytes>> {
        let (view, at) = self.view_of(source);
        let data = data_id(&view, source)?;
        self.get_at(&view, at, data, key)
    }

    #[inline(always)]
    fn get_at(
        &self,
        view: &View,
        at: Visibility,
        data: KeyspaceId,
        key: &[u8],
    ) -> Result<Option<Bytes>> {
        check_len(key)?;
        let value = self.core.while_open(|| {
            self.core.counters.gets.fetch_add(1, Ordering::Relaxed);
            with_engine_key(data, key, |key| view.get(key, &at, &self.reads))
        })?;
        self.wake_if_index_is_wanted();
        if value.is_some() {
            self.core.counters.hits.fetch_add(1, Ordering::Relaxed);
        }
        Ok(value)
    }

    /// Whether `key` has a value, of which nothing is read.
    pub(crate) fn contains(&self, source: Source, key: &[u8]) -> Result<bool> {
        Ok(self.find_len(source, key, |_, _| Ok(0))?.is_some())
    }

    /// The length of the value of `key`, of which at most the header of its record is read.
    pub(crate) fn value_len(&self, source: Source, key: &[u8]) -> Result<Option<usize>> {
        self.find_len(source, key, |view, found| view.value_len(found.place))
    }

    fn find_len(
        &self,
        source: Source,
        key: &[u8],
        len: impl FnOnce(&View, Found<'_>) -> Result<usize>,
    ) -> Result<Option<usize>> {
        let len = |view: &View, _: &[u8], found: Found<'_>| len(view, found);
        self.find_or_get(source, key, len, |value| value.len())
    }

    /// What `say` says of where the value of `key` is, or `of_value` of the value.
    pub(super) fn find_or_get<T>(
        &self,
        source: Source,
        key: &[u8],
        say: impl FnOnce(&View, &[u8], Found<'_>) -> Result<T>,
        of_value: impl FnOnce(Bytes) -> T,
    ) -> Result<Option<T>> {
        let point = self.point(source)?;
        match self.find(&point, key, say) {
            // What is damaged may be a list of keys whose records are sound.
            Err(error) if error.kind() == ErrorKind::Corruption => {
                let value = self.get_at(&point.view, point.at, point.data, key)?;
                Ok(value.map(of_value))
            }
            found => found,
        }
    }

    /// What `say` says of where the value of `key` is, which it gets as it stands in files.
    pub(super) fn find<T>(
        &self,
        Point { view, at, data }: &Point,
        key: &[u8],
        say: impl FnOnce(&View, &[u8], Found<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        check_len(key)?;
        let found = self.core.while_open(|| {
            with_engine_key(*data, key, |key| {
                let found = view.find(key, *at, &self.reads)?;
                found.map(|found| say(view, key, found)).transpose()
            })
        })?;
        let counters = &self.core.counters;
        counters.gets.fetch_add(1, Ordering::Relaxed);
        if found.is_some() {
            counters.hits.fetch_add(1, Ordering::Relaxed);
        }
        Ok(found)
    }

    /// The value of each key, all as of one moment.
    pub(crate) fn multi_get<K: AsRef<[u8]>>(
        &self,
        source: Source,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Bytes>>> {
        let mut view = self.view.load_full();
        let at = loop {
            let seq = || SeqNo(self.visible_seq.load(Ordering::Acquire));
            let at = source.at.unwrap_or_else(|| Visibility::now(seq()));
            // If an ingest is visible at this number, the view must have its tables for all keys.
            let now = self.view.load_full();
            if source.at.is_some() || Arc::ptr_eq(&now, &view) {
                break at.fixed(&view.clock);
            }
            view = now;
        };
        let data = data_id(&view, source)?;
        let (mut keys, mut values) = (keys.into_iter(), Vec::new());
        loop {
            let group: Vec<K> = keys.by_ref().take(PREFETCHED_TOGETHER).collect();
            if group.is_empty() {
                return Ok(values);
            }
            values.reserve(group.len());
            let mut is_prefetched = false;
            for (nth, key) in group.iter().enumerate() {
                let misses = self.core.cache.misses();
                values.push(self.get_at(&view, at, data, key.as_ref())?);
                // Others may have missed meanwhile: then it is prefetched for nothing.
                if !is_prefetched && self.core.cache.misses() != misses {
                    is_prefetched = true;
                    // What has failed fails again in the look-up, which reports it.
                    let _hint = self.prefetch(&view, at.seq, data, &group[nth + 1..]);
                }
            }
        }
    }

    /// Has the device read what look-ups of `keys` will wait for, all of it at once (as paper
    /// §III-F for scans): key blocks first, then the records after them.
    fn prefetch<K: AsRef<[u8]>>(
        &self,
        view: &View,
        seq: SeqNo,
        data: KeyspaceId,
        keys: &[K],
    ) -> Result<()> {
        let behind_blocks = self.prefetch_next(view, seq, data, keys.iter(), false)?;
        self.prefetch_next(view, seq, data, behind_blocks.into_iter(), true)?;
        Ok(())
    }

    /// See [`View::prefetch`]. Returns the keys whose records are behind blocks that had to be
    /// prefetched.
    fn prefetch_next<'a, K: AsRef<[u8]>>(
        &self,
        view: &View,
        seq: SeqNo,
        data: KeyspaceId,
        keys: impl Iterator<Item = &'a K>,
        waits: bool,
    ) -> Result<Vec<&'a K>> {
        let mut behind_blocks = Vec::new();
        let mut needless = 0;
        for (at, key) in keys.enumerate() {
            let ahead = self.core.while_open(|| {
                with_engine_key(data, key.as_ref(), |key| view.prefetch(key, seq, waits))
            });
            match ahead? {
                Ahead::InMemory => needless += 1,
                Ahead::Prefetched => {}
                Ahead::BlockFirst => behind_blocks.push(key),
            }
            if needless == IN_MEMORY_ALONE && at + 1 == needless {
                break;
            }
        }
        Ok(behind_blocks)
    }
}

impl ReadState {
    #[inline(always)]
    fn view_of(&self, source: Source) -> (Guard<Arc<View>>, Visibility) {
        match source.at {
            None => {
                let (view, seq) = self.read_point();
                (view, Visibility::now(seq))
            }
            Some(at) => (self.view.load(), at),
        }
    }

    /// What a read of `source` sees.
    pub(crate) fn point(&self, source: Source) -> Result<Point> {
        let (view, at) = self.view_of(source);
        let data = data_id(&view, source)?;
        Ok(Point { view, at, data })
    }
}

impl ReadState {
    /// Publishes a changed view.
    pub(crate) fn update_view(&self, change: impl FnOnce(&mut View)) {
        let _guard = self.view_lock.lock();
        let mut next = View::clone(&self.view.load());
        change(&mut next);
        let short = self.core.memory.look_at(&next);
        self.backpressure.update_pressure(&next);
        self.view.store(Arc::new(next));
        if short {
            self.views.release();
            self.recent.give_up();
        }
    }

    /// What a read without a snapshot sees: the view first, then the sequence number, so that the
    /// view holds a prefix of the write order and no version that the number needs is gone.
    #[inline(always)]
    pub(crate) fn read_point(&self) -> (Guard<Arc<View>>, SeqNo) {
        let seq = || SeqNo(self.visible_seq.load(Ordering::Acquire));
        let early = is_weak(Weakness::SeqBeforeView).then(|| {
            let seq = seq();
            // A whole flush must run in between, which few schedules give by themselves.
            let runtime = &self.core.store.env().runtime;
            runtime.delay(std::time::Duration::ZERO);
            seq
        });
        let view = self.view.load();
        (view, early.unwrap_or_else(seq))
    }

    /// Makes the writes up to `seq`, which are in the view, visible.
    pub(crate) fn publish_seq(&self, seq: SeqNo) {
        let ordering = order(Weakness::Visible, Ordering::Release);
        self.visible_seq.store(seq.0, ordering);
        self.core.visible_page.seq(seq);
        self.core.note_changes();
    }

    /// As [`ReadState::publish_seq`], where the number is in no record of the log.
    pub(crate) fn publish_unlogged_seq(&self, seq: SeqNo) {
        self.visible_seq.store(seq.0, Ordering::Release);
        self.core.visible_page.unlogged_seq(seq);
        self.core.note_changes();
    }

    /// Wakes the background if an index has just become worth its cost.
    pub(crate) fn wake_if_index_is_wanted(&self) {
        let wanted = &self.reads.pointer_index_wanted;
        if wanted.load(Ordering::Relaxed) && wanted.swap(false, Ordering::Relaxed) {
            self.core.work.notify();
        }
    }
}

#[cfg(test)]
mod tests;
