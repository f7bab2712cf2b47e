//! The bounds of what is copied for scans, looked at after every operation, and in the midst of
//! those that let the background work:
//!
//! - Over the life of a database no more is copied than twice what users wrote.
//! - A slice copies its share, and the records of one key more.
//! - Before writers have been idle for a second, or somebody waits for the background, no more is
//!   copied than scans have charged, and the charge is spent.
//! - Where nothing but slices has changed the files, garbage has stayed within the promise on disk
//!   space, and none began where garbage and what readers hold had used that up.
//! - Large values stay where they are. What has been copied is not copied again without a write.

use super::{Interrupt, Runner};
use crate::history::Op;
use std::time::Duration;
use unikv::vfs::Runtime;
use unikv::{Clustering, Db, LifetimeStats, Stats};

/// Writers that have not written for so long are idle.
const IDLE: Duration = Duration::from_secs(1);
/// Values of at least these bytes are as good alone.
pub const LARGE_BYTES: usize = 256 << 10;
/// Keys and values are stored with no more than this beside them.
const FRAME_BYTES: u64 = 64;

/// What is known of the engine since it was opened.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    last: Option<Figures>,
    /// Writers have written for the last time then, or later.
    wrote: Duration,
    /// The most that was written between two looks: no record is longer.
    longest: u64,
    /// Whether a value was written, in any life of the database, that is not large.
    has_small: bool,
}

/// Figures of a moment.
#[derive(Clone, Debug)]
struct Figures {
    now: Duration,
    /// Bytes that users have written.
    written: u64,
    slices: u64,
    copied: u64,
    /// What scans have charged that is not spent.
    charged: u64,
    /// What else changes which records are garbage.
    changes: [u64; 6],
    /// Bytes of records that are there, of garbage, of what readers hold beside that, and of what
    /// garbage is allowed.
    live: u64,
    dead: u64,
    held: u64,
    allowed: u64,
    /// Snapshots and iterators.
    readers: u64,
}

impl Figures {
    fn of(db: &Db, stats: &Stats, now: Duration) -> Figures {
        let garbage = db.garbage();
        Figures {
            now,
            written: stats.lifetime.user_bytes_written,
            slices: stats.clusterings,
            copied: stats.clustered_bytes,
            charged: stats.lifetime.scan_cost,
            changes: [
                stats.flushes,
                stats.merges,
                stats.gcs,
                stats.splits,
                stats.joins,
                stats.ingests,
            ],
            live: garbage.live_bytes,
            dead: garbage.dead_bytes,
            held: stats.pins.bytes,
            allowed: garbage.allowed_bytes,
            readers: (stats.pins.snapshots + stats.pins.iterators) as u64,
        }
    }
}

/// Whether an operation neither scans, nor waits for the background, nor releases files.
fn is_plain(op: &Op) -> bool {
    matches!(
        op,
        Op::Set(..)
            | Op::Write(..)
            | Op::Get(..)
            | Op::MultiGet(..)
            | Op::Flush
            | Op::Sync
            | Op::Look
            | Op::Snapshot(..)
            | Op::Clock { .. }
            | Op::Step(..)
    )
}

/// Whether an operation writes no value that is not large.
fn writes_none_small(op: &Op) -> bool {
    match op {
        Op::Set(_, value) => value.is_none_or(|value| value.len >= LARGE_BYTES),
        Op::Flush | Op::Sync | Op::Look | Op::Step(..) | Op::Compact | Op::Quiesce => true,
        _ => false,
    }
}

impl Runner {
    /// A database was opened: nothing is known of it, nor when somebody wrote last.
    pub(super) fn forget_clustering(&mut self) {
        self.watched.last = None;
        self.watched.wrote = self.runtime.now();
    }

    /// Takes note of how things stand before an operation.
    pub(super) fn watch_clustering(&mut self) {
        self.watched.last = self.figures().map(|(figures, _)| figures);
    }

    fn figures(&self) -> Option<(Figures, LifetimeStats)> {
        let db = self.db.as_ref()?;
        let stats = db.stats();
        let figures = Figures::of(db, &stats, self.runtime.now());
        Some((figures, stats.lifetime))
    }

    /// Looks whether the bounds hold after `op`, or in its midst.
    pub(super) fn check_clustering(&mut self, op: &Op) {
        self.watched.has_small |= !writes_none_small(op);
        let Some((now, life)) = self.figures() else {
            return;
        };
        if let Some(before) = self.watched.last.take() {
            self.watched.longest = self.watched.longest.max(now.written - before.written);
            if !self.faulted() {
                self.bounds_hold(&before, &now, op);
            }
            if now.written > before.written {
                self.watched.wrote = before.now;
            }
        }
        // The last slice may go beyond it.
        let beyond = self.slice_bytes() + self.of_one_key(&now);
        assert!(
            life.clustered_bytes <= 2 * life.user_bytes_written + beyond,
            "more is copied for scans than twice what was written: {life:#?}"
        );
        assert!(
            self.watched.has_small || life.clustered_bytes == 0,
            "large values are copied: {life:#?}"
        );
        self.watched.last = Some(now);
    }

    fn slice_bytes(&self) -> u64 {
        self.config.unsorted_bytes.clamp(4 << 10, 64 << 20)
    }

    /// Bytes of the records of one key at most: all versions that somebody may see move together.
    fn of_one_key(&self, figures: &Figures) -> u64 {
        (2 + figures.readers) * (self.watched.longest + FRAME_BYTES)
    }

    fn bounds_hold(&self, before: &Figures, now: &Figures, op: &Op) {
        let (slices, copied) = (now.slices - before.slices, now.copied - before.copied);
        if slices == 0 {
            return;
        }
        let clustering = self.config.clustering;
        assert_eq!(clustering, Clustering::Automatic, "what is not asked for");
        let beyond = slices * self.of_one_key(before).max(self.of_one_key(now));
        let shown = || format!("{op:?} {before:#?} {now:#?} {:#?}", self.watched);
        assert!(
            copied <= slices * self.slice_bytes() + beyond,
            "a slice copies more than its share: {}",
            shown()
        );
        let may_be_idle = now.now - self.watched.wrote >= IDLE;
        if is_plain(op) && !may_be_idle {
            assert!(
                now.charged + copied <= before.charged + beyond,
                "copied while writers write, and no scan was charged for it: {}",
                shown()
            );
        }
        let asks = matches!(op, Op::Quiesce | Op::Compact | Op::CollectGarbage);
        if now.changes == before.changes && (is_plain(op) || asks) {
            // What users have deleted, a slice leaves out.
            let deleted = before.live.saturating_sub(now.live);
            assert!(
                now.dead <= before.allowed.max(now.allowed) + deleted,
                "slices leave more garbage than is allowed: {}",
                shown()
            );
            assert!(
                before.dead + before.held <= before.allowed,
                "slices begin though there is no room for them: {}",
                shown()
            );
        }
    }

    /// Lets the background take some steps, and looks after each.
    pub(super) fn step(&mut self, op: &Op, steps: usize) {
        for _ in 0..steps {
            let ran = self.runtime.run_one();
            self.check_clustering(op);
            if !ran {
                break;
            }
        }
    }

    /// Waits until the background has nothing to do, twice: the second time it copies nothing.
    pub(super) fn wait_until_idle(&mut self, op: &Op) -> Result<(), Interrupt> {
        let slices = |runner: &Runner| runner.watched.last.as_ref().map(|last| last.slices);
        self.maintain("wait_until_idle", Db::wait_until_idle, false)?;
        self.check_clustering(op);
        let before = slices(self);
        self.maintain("wait_until_idle", Db::wait_until_idle, false)?;
        self.check_clustering(op);
        let copies = before
            .zip(slices(self))
            .is_some_and(|(before, now)| now > before);
        assert!(
            !copies || self.faulted(),
            "what was copied is copied again though nobody wrote: {:#?}",
            self.watched
        );
        Ok(())
    }
}
