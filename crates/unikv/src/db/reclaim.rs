//! Deleted records give their space back early, and also when nobody writes any more (design I7).
//!
//! A tombstone takes a few bytes and may hide a large record, which only its flush, its merge and then
//! garbage collection reclaim. Three rules bound what is hidden ([`crate::jobs::space`] estimates it):
//! a memtable with too many deletes is sealed early; while generations hide too much the worst is frozen,
//! and so merged, early; and when space is out of bounds and nobody has written for a second, all are.
//! The last two hold as well for what has died in tables that other partitions have merged already
//! ([`crate::jobs::half_merged`]): generations keep it.

use super::catalog::Catalog;
use super::engine::Engine;
use super::write::Commit;
use crate::base::keys::SeqNo;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::error::Result;
use crate::jobs::gc::Pressure;
use crate::jobs::half_merged::HalfMerged;
use crate::jobs::space::{Space, hidden_by};
use crate::partition::View;
use crate::version::Version;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long nobody must have written before generations are merged although they are not full.
const IDLE: Duration = Duration::from_secs(1);

/// What the rules go by.
#[derive(Debug, Default)]
pub(crate) struct Reclaim {
    /// Bytes that a delete frees in the mean.
    mean_record_bytes: AtomicU64,
    /// Bytes that the deletes of one memtable may free.
    memtable_limit: AtomicU64,
    /// Space would press if no snapshot were left.
    presses_without_snapshots: AtomicBool,
    /// The deletes in each sealed memtable of this process, oldest first.
    sealed_deletes: Mutex<VecDeque<u64>>,
    /// The last sequence number when the flush worker last looked.
    seen_seq: AtomicU64,
    /// What was summed up last.
    known: Mutex<Option<KnownSpace>>,
}

/// The space of a version, as long as that is the one asked about.
#[derive(Debug)]
struct KnownSpace {
    version: Weak<Version>,
    oldest: Option<SeqNo>,
    space: Space,
}

impl Reclaim {
    /// A memtable with `deletes` is about to be sealed.
    pub(crate) fn sealed(&self, deletes: u64) {
        self.sealed_deletes.lock().push_back(deletes);
    }

    /// Notes whether space would press if no snapshot were left. Whoever does so looks for the oldest
    /// snapshot afterwards: one that is released before that look is seen to be gone there, a later one
    /// wakes the background.
    pub(super) fn judge(&self, presses: bool) {
        let flag = &self.presses_without_snapshots;
        flag.store(presses, Ordering::SeqCst);
    }

    /// Whether somebody is to be woken when the oldest snapshot has gone. To be asked behind its release.
    pub(super) fn waits_for_snapshots(&self) -> bool {
        self.presses_without_snapshots.load(Ordering::SeqCst)
    }

    /// The deletes of the memtables that are sealed still, recovered ones left out.
    fn deletes_in(&self, sealed: usize) -> u64 {
        let mut deletes = self.sealed_deletes.lock();
        while deletes.len() > sealed {
            deletes.pop_front();
        }
        deletes.iter().sum()
    }
}

impl Engine {
    /// The space of a version, `oldest` being the oldest live snapshot. Summed up once a version:
    /// it is asked for at every seal and by every job, and the sum is over all files.
    pub(crate) fn space_of(&self, version: &Arc<Version>, oldest: Option<SeqNo>) -> Space {
        let mut known = self.reclaim.known.lock();
        let is_same = |known: &&KnownSpace| {
            known.oldest == oldest && std::ptr::eq(known.version.as_ptr(), Arc::as_ptr(version))
        };
        if let Some(known) = known.as_ref().filter(is_same) {
            return known.space;
        }
        let space = Space::of(version, oldest, self.options.max_space_amp);
        *known = Some(KnownSpace {
            version: Arc::downgrade(version),
            oldest,
            space,
        });
        space
    }

    /// How full the space promise is at worst: 1 when files may take all that is promised, jobs
    /// included; 0 when there is no garbage at all.
    pub(crate) fn space_fill(&self, view: &View, space: &Space) -> f64 {
        let hidden = self.freed_by(self.reclaim.deletes_in(view.sealed.len()));
        space.fill(self.space_limit(), hidden)
    }

    /// Judges anew, after a version of such a space was published.
    pub(crate) fn update_reclaim(&self, space: &Space) {
        let limit = self.space_limit();
        let excess = space.without_snapshots().excess(limit, Pressure::Alone);
        let presses = space.older_bytes_in_all > 0 && excess > 0;
        let stored = space.live_bytes + space.key_table_bytes;
        let mean = stored.checked_div(space.entries).unwrap_or(0);
        let limit = space.allowed_garbage(limit) / 16;
        let reclaim = &self.reclaim;
        reclaim.mean_record_bytes.store(mean, Ordering::Relaxed);
        let limit = limit.max(self.memory.plan.memtable_bytes);
        reclaim.memtable_limit.store(limit, Ordering::Relaxed);
        reclaim.judge(presses);
    }

    /// Bytes that `deletes` free, about.
    pub(crate) fn freed_by(&self, deletes: u64) -> u64 {
        deletes.saturating_mul(self.reclaim.mean_record_bytes.load(Ordering::Relaxed))
    }

    /// Whether the deletes in the memtable free so much that it is to be sealed.
    pub(crate) fn hides_too_much(&self, commit: &Commit) -> bool {
        self.freed_by(commit.deletes) > self.reclaim.memtable_limit.load(Ordering::Relaxed)
    }

    /// The oldest snapshot has gone: wakes the background if it kept much.
    pub(crate) fn snapshot_released(&self) {
        if self.reclaim.waits_for_snapshots() {
            self.work.notify();
        }
    }

    /// Freezes the open generations that hide and keep most while all hide and keep too much.
    pub(crate) fn freeze_hiding(&self, catalog: &mut Catalog) {
        let version = Arc::clone(&catalog.version);
        let space = self.space_of(&version, self.snapshots.oldest());
        let limit = space.most_hidden(self.space_limit());
        if space.unmerged_garbage() <= limit {
            return;
        }
        let half_merged = HalfMerged::of(&version);
        let open = version.partitions().iter().filter_map(|p| {
            let target = catalog.targets.get(&p.id)?;
            let generation = p
                .generations
                .first()
                .filter(|g| g.id == target.generation)?;
            let hidden = hidden_by(p, generation.records(), generation.bytes());
            Some((hidden + half_merged.kept_by(generation), p))
        });
        let mut open: Vec<_> = open.filter(|(garbage, _)| *garbage > 0).collect();
        let mut garbage: u64 = open.iter().map(|(garbage, _)| garbage).sum();
        open.sort_unstable_by_key(|(garbage, _)| std::cmp::Reverse(*garbage));
        for (its, partition) in open {
            if garbage <= limit {
                return;
            }
            if catalog.freeze(partition) {
                garbage -= its;
            }
        }
    }

    /// How long the flush worker may rest: a second at most while the files hold too much that merges
    /// would let go of. When nobody has written for so long, it begins with that.
    pub(crate) fn rest_or_settle(&self) -> Option<Duration> {
        if !self.holds_too_much() {
            return None;
        }
        let seq = self.visible_seq.load(Ordering::Acquire);
        if self.reclaim.seen_seq.swap(seq, Ordering::Relaxed) == seq {
            self.freeze_all();
        }
        Some(IDLE)
    }

    /// Seals and freezes what hides too much without waiting for its time.
    pub(crate) fn settle(&self) -> Result<()> {
        let deletes = self.commit.lock().deletes;
        let in_memtable = self.freed_by(deletes) > self.space_limit().floor_bytes;
        if in_memtable {
            self.flush_memtables()?;
        }
        if in_memtable || self.holds_too_much() {
            self.freeze_all();
        }
        Ok(())
    }

    /// Whether open generations hide more than there may be at rest.
    fn holds_too_much(&self) -> bool {
        let version = Arc::clone(&self.view.load().version);
        let space = self.space_of(&version, self.snapshots.oldest());
        space.hides_too_much(self.space_limit())
    }

    fn freeze_all(&self) {
        let frozen = self.catalog.lock().freeze_all();
        if frozen {
            self.work.notify();
        }
    }
}
