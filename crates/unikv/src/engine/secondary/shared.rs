//! What all states of a secondary have in common: options, cache, memory, clock, and the files that
//! are open. It is what an engine has without what writes.

use crate::base::keys::{FileNumber, FileUid, SeqNo};
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::engine::backpressure::Backpressure;
use crate::engine::core::{Core, CoreParts};
use crate::engine::memory::{Arbiter, MemoryPlan};
use crate::engine::open::stored_options;
use crate::engine::read::ReadState;
use crate::engine::space::DiskSpace;
use crate::engine::space::full_disk::FullDisk;
use crate::engine::stats::lifetime::LifetimeStats;
use crate::engine::visible_page::{FollowedPage, VisiblePage};
use crate::error::{Error, ErrorKind, Result};
use crate::events::Events;
use crate::log::{DurablePoint, SegmentEnd};
use crate::memtable::ArenaPool;
use crate::options::{EffectiveOptions, Options, SecondaryOptions, StoredOptions};
use crate::version::Counters;
use crate::version::edit::VersionEdit;
use crate::version::edit::history::History;
use crate::version::manifest::ManifestTail;
use crate::vfs::clock::Clock;
use crate::vfs::file_store::FileStore;
use crate::vfs::{Env, LockGuard};
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Tries to find a manifest that stays until it has been opened.
const MOST_TRIES: u32 = 16;

/// Stands for the lock that a secondary does not take.
#[derive(Debug)]
struct NoLock;

impl LockGuard for NoLock {}

/// What all states have in common.
pub(super) struct Shared {
    /// The memory budget that the caller has set.
    pub(super) budget: Option<u64>,
    pub(super) core: Arc<Core>,
    pub(super) space: Arc<DiskSpace>,
    pub(super) backpressure: Arc<Backpressure>,
    /// As the database is opened if nothing else is set.
    pub(super) stored_options: EffectiveOptions,
}

/// What a secondary shows, until the next refresh.
pub(crate) struct Shown {
    pub(crate) read: Arc<ReadState>,
    pub(crate) seq: SeqNo,
    pub(crate) commit_tag: Option<Bytes>,
    /// The same and its number, if it is in a memtable: later writes may take its place there.
    pub(super) commit_tag_in_memory: Option<(SeqNo, Bytes)>,
    /// Whether there was a writer.
    pub(super) is_live: bool,
    /// What is known of the log.
    pub(super) log: Arc<ShownLog>,
}

/// What is known of the log of a state: all that the feed needs of it, so that a reader which rests
/// keeps no files.
#[derive(Debug)]
pub(super) struct ShownLog {
    pub(super) of: LogOf,
    /// The last number that the state shows.
    pub(super) seq: SeqNo,
    /// Tables have everything up to here.
    pub(super) flushed: SeqNo,
    pub(super) low_water: FileNumber,
    pub(super) history: Option<Arc<History>>,
    /// The edits that have been applied.
    pub(super) edits: u64,
    /// Up to here the records of the log are visible.
    pub(super) logged: SeqNo,
    /// The last write that was read in the log.
    pub(super) last: SeqNo,
    /// The greatest place below which all was durable, as the log or the manifest says.
    pub(super) claimed: Option<DurablePoint>,
}

impl ShownLog {
    /// What `counters` say, and what was read of the log: its last write, and what it claims.
    pub(super) fn new(
        of: LogOf,
        counters: &Counters,
        edits: u64,
        (seq, logged): (SeqNo, SeqNo),
        (last, claimed): (SeqNo, Option<DurablePoint>),
    ) -> ShownLog {
        let said = counters.needed_log().durable().map(|it| it.point);
        ShownLog {
            of,
            seq,
            flushed: counters.flushed_seq,
            low_water: counters.wal_low_water,
            history: counters.history.clone(),
            edits,
            // The page may say more already than it did of this number.
            logged: logged.min(seq),
            last,
            claimed: said.max(claimed),
        }
    }
}

/// Whose log it was.
#[derive(Debug)]
pub(super) enum LogOf {
    Writer(FollowedPage),
    /// Recovery would find this end of it.
    Nobody(World, Option<SegmentEnd>),
}

/// By what one situation differs from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct World {
    pub(super) writer: Writer,
    /// The manifest that `CURRENT` names.
    pub(super) manifest: FileUid,
}

/// Who writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    Nobody(Option<FileUid>),
    /// Somebody who has not opened the database yet.
    Opening(FileUid),
    /// The opening with this page, and the number of its edits that are in force.
    Opened(FileUid, u64),
}

/// Counts what happens.
#[derive(Default)]
pub(super) struct Figures {
    pub(super) refreshes: AtomicU64,
    /// When the last one was, in nanoseconds on the runtime's clock.
    pub(super) refreshed_ns: AtomicU64,
    pub(super) retries: AtomicU64,
    pub(super) reloads: AtomicU64,
}

impl Figures {
    pub(super) fn note(&self, shared: &Shared) {
        let now = u64::try_from(shared.core.now().as_nanos()).unwrap_or(u64::MAX);
        self.refreshed_ns.store(now, Ordering::Relaxed);
        self.refreshes.fetch_add(1, Ordering::Relaxed);
    }
}

impl Shared {
    pub(super) fn open(env: Env, dir: &Path, options: &SecondaryOptions) -> Result<Shared> {
        let (tail, first) = first_edit(&env, dir)?;
        let stored = match &first.options {
            Some(bytes) => stored_options::decode(bytes, tail.path())?,
            None => StoredOptions::default(),
        };
        let stored_options = Options::default().resolve(&stored)?;
        let budget = options.memory_budget;
        let options = options.resolve(&stored)?;
        let plan = MemoryPlan::of_reader(&options);
        // What an earlier state gives back is not kept for the next one: the budget may be just
        // enough for what that reads.
        let pool = ArenaPool::new(plan.memtable_bytes as usize, 0);
        let cache = plan.new_cache();
        // How many may be open is a matter of the states: each holds all of its files.
        let store = FileStore::new(env.clone(), dir.to_owned(), tail.database(), usize::MAX);
        // That opens a file once more, by a name that may be gone.
        store.read_through();
        let full = FullDisk::at_open(&store, plan.memtable_bytes, false);
        let memory = Arbiter::new(plan, &pool, &cache, env.runtime.process());
        let core = Core::new(CoreParts {
            options,
            clock: Arc::new(Clock::of_reader(&env.runtime, first.clock_ms.unwrap_or(0))),
            hash_seed: first.hash_seed.unwrap_or(0),
            store,
            cache,
            pool,
            memory,
            next_file: 0,
            counted_before: LifetimeStats::default(),
            events: Events::default(),
            visible_page: VisiblePage::default(),
            directory: Box::new(NoLock),
            outside: env,
            progress_panics: 0,
        });
        let space = DiskSpace::new(&core, full);
        Ok(Shared {
            backpressure: Backpressure::new(&core, &space),
            budget,
            stored_options,
            space,
            core,
        })
    }
}

/// The manifest in force and its first edit, which says how the database is set up.
fn first_edit(env: &Env, dir: &Path) -> Result<(ManifestTail, VersionEdit)> {
    let mut tries = 0;
    loop {
        let found = ManifestTail::open(&*env.vfs, dir, None).and_then(|mut tail| {
            let first = tail.next(0)?;
            let none = || Error::corruption(tail.path(), 0, "the manifest has no first edit");
            first.ok_or_else(none).map(|first| (tail, first))
        });
        let may_have_moved = |error: &Error| {
            matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io) && tries < MOST_TRIES
        };
        match found {
            Err(error) if may_have_moved(&error) => tries += 1,
            found => return found,
        }
        env.runtime.delay(Duration::from_millis(1));
    }
}
