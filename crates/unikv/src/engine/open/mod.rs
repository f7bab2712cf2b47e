//! Opening: lock, recover, write the new manifest and WAL segment, sweep, start the workers.
//!
//! Every opening begins a new manifest with a snapshot and a new WAL segment: a recovered log is
//! never appended to. What the old files hold stays listed until tables hold it. Files are swept
//! only after the new manifest is durable and everything it lists has been seen.

pub(crate) mod directory;
mod first_writes;
pub(crate) mod foreign;
pub(crate) mod progress;
pub(crate) mod recovery;
pub(crate) mod stored_options;
mod sweep;
mod window;

use self::directory::{check_directory, hold, take_lock};
use self::first_writes::{Before, write_first};
use self::progress::Progress;
use self::recovery::Replayed;
use self::sweep::{Needed, sweep, to_quarantine};
use super::catalog::{CatalogState, PartitionFigures, Targets};
use super::memory::{Arbiter, MemoryPlan};
use super::write::Commit;
use crate::base::keys::{DatabaseId, FileNumber, PartitionId};
use crate::base::seeded::{seeded, slip};
use crate::base::sync::atomic::AtomicU64;
use crate::engine::catalog::gone::GoneKeyspaces;
use crate::engine::core::CoreParts;
use crate::engine::space::estimates::Freed;
use crate::engine::space::full_disk::FullDisk;
use crate::engine::stats::lifetime::{self, LifetimeStats};
use crate::engine::write::wal_sync::WalSync;
use crate::engine::{Engine, EngineParts};
use crate::error::{ErrorKind, Result};
use crate::events::{Events, OpeningPhase, RecoveryReport};
use crate::jobs::flush::placing::GenerationLimits;
use crate::jobs::partitioning::split::PartitionLimits;
use crate::jobs::space::Space;
use crate::key_table::ReadCache;
use crate::log::replay;
use crate::memtable::{ArenaPool, Memtable};
use crate::options::{EffectiveOptions, Options, StoredOptions};
use crate::partition::scan_sources;
use crate::partition::{Horizon, MemtableHandle, View};
use crate::version::Version;
use crate::version::edit::{PartitionMeta, VersionEdit};
use crate::version::file_names::{self, DirSurvey};
use crate::version::manifest::{Manifest, RecoveredManifest};
use crate::vfs::clock::Clock;
use crate::vfs::file_store::FileStore;
use crate::vfs::{Env, LockGuard, MemoryVfs};
use std::mem;
use std::path::Path;
use std::sync::Arc;

/// Opens the database in `dir`, creating it if the options allow.
pub(crate) fn open(
    env: Env,
    dir: &Path,
    options: Options,
) -> Result<(Arc<Engine>, RecoveryReport)> {
    // What is wrong without looking at the database.
    let wanted = options.resolve(&StoredOptions::default())?;
    let outside = env.clone();
    let env = if wanted.in_memory {
        Env {
            vfs: Arc::new(MemoryVfs::default()),
            runtime: env.runtime,
        }
    } else {
        env
    };
    let dir = &directory::named(&env, dir, wanted.in_memory)?;
    let events = Events::of(options.listener.as_ref(), &*env.runtime);
    let begin = env.runtime.now();
    let progress = Progress::begin(options.on_progress.clone(), &env.runtime);
    let prepared = directory::prepare(&env, dir, &options);
    prepared.map_err(|error| foreign::explained(&*env.vfs, dir, error))?;
    let env = hold(&env, dir)?;
    let lock = take_lock(&env, dir)?;
    // What was seen before the lock was held may have changed since.
    let survey = file_names::survey(&*env.vfs, dir)?;
    check_directory(dir, &survey, &options)?;
    progress.report(OpeningPhase::Manifest, 0, 0);
    let recovered = if survey.has_current {
        Some(Manifest::recover(&*env.vfs, dir)?)
    } else {
        None
    };
    let stored = stored_options::of(recovered.as_ref())?;
    let (to_store, job_clock_ms) = (options.to_store(&stored), options.job_clock_ms);
    let options = options.resolve(&stored)?;
    let mut opening = Opening::new(env, dir, options, stored, survey);
    opening.to_store = to_store;
    opening.events = events;
    opening.progress = progress;
    opening.outside = outside;
    let engine = match recovered {
        Some(manifest) => opening.recover(manifest, lock)?,
        None => opening.create(job_clock_ms, lock)?,
    };
    let mut report = opening.report;
    report.elapsed = engine.core.store.env().runtime.now().saturating_sub(begin);
    Ok((Arc::new(engine), report))
}

/// What opening gathers on its way.
struct Opening<'a> {
    env: Env,
    dir: &'a Path,
    options: EffectiveOptions,
    /// What was stored, and what is from now on.
    stored: StoredOptions,
    to_store: StoredOptions,
    survey: DirSurvey,
    next_file: u64,
    /// What the manifest has stored of earlier processes.
    counted_before: LifetimeStats,
    plan: MemoryPlan,
    /// For the recovered memtables and all later ones.
    pool: Arc<ArenaPool>,
    report: RecoveryReport,
    events: Events,
    progress: Progress,
    /// Where what leaves the database goes.
    outside: Env,
}

impl<'a> Opening<'a> {
    fn new(
        env: Env,
        dir: &'a Path,
        options: EffectiveOptions,
        stored: StoredOptions,
        survey: DirSurvey,
    ) -> Opening<'a> {
        let next_file = slip!(ReuseFileNumbers, 1, survey.max_number() + 1);
        // Room for all memtables there may be: chunks given back to the allocator and taken again
        // by another thread leave holes that it cannot use.
        let plan = MemoryPlan::of(&options);
        env.vfs
            .limit_write_buffers(plan.write_buffer_bytes as usize);
        let memtables_bytes = plan.memtables_bytes() as usize;
        let pool = ArenaPool::new(plan.memtable_bytes as usize, memtables_bytes);
        Opening {
            outside: env.clone(),
            progress: Progress::begin(None, &env.runtime),
            env,
            dir,
            options,
            stored,
            to_store: StoredOptions::default(),
            survey,
            next_file,
            counted_before: LifetimeStats::default(),
            plan,
            pool,
            report: RecoveryReport::default(),
            events: Events::default(),
        }
    }

    fn take_number(&mut self) -> FileNumber {
        let number = FileNumber(self.next_file);
        self.next_file += 1;
        number
    }

    /// Makes a new, empty database, with what another one has noted of its job clock.
    fn create(&mut self, clock_ms: Option<u64>, lock: Box<dyn LockGuard>) -> Result<Engine> {
        self.report.created = true;
        let runtime = &self.env.runtime;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&runtime.random_u64().to_le_bytes());
        id[8..].copy_from_slice(&runtime.random_u64().to_le_bytes());
        let first = VersionEdit {
            hash_seed: Some(runtime.random_u64()),
            next_partition: Some(1),
            clock_ms,
            partitions: vec![PartitionMeta {
                id: PartitionId(0),
                start: Vec::new(),
                end: None,
            }],
            ..VersionEdit::default()
        };
        let store = self.store(DatabaseId(id));
        let cache = self.plan.new_cache();
        let version = recovery::build_version(&store, &cache, self.dir, [Ok(first)])?;
        self.start(store, cache, version, None, Before::default(), lock)
    }

    /// Brings back an existing database.
    fn recover(
        &mut self,
        mut manifest: RecoveredManifest,
        lock: Box<dyn LockGuard>,
    ) -> Result<Engine> {
        let store = self.store(manifest.database);
        let cache = self.plan.new_cache();
        // First, so that a manifest which lost edits is blamed, and not the files it misplaces.
        let segments = recovery::wal_segments(&self.survey);
        manifest.check_edits(replay::max_manifest_edits(&store, &segments)?)?;
        let staying = manifest.staying();
        let edits = std::mem::take(&mut manifest.edits);
        let numbered = (1..).zip(edits.into_iter(&manifest.path));
        let reported = numbered.map(|(nth, edit)| {
            self.progress.report(OpeningPhase::Manifest, nth, 0);
            edit
        });
        let mut version = recovery::build_version(&store, &cache, &manifest.path, reported)?;
        self.next_file = self.next_file.max(version.counters.next_file);
        // Figures that cannot be understood keep nobody from the data; a check reports them.
        self.counted_before = lifetime::of(&version, &manifest.path).unwrap_or_default();
        scan_sources::hand_back(&version, self.counted_before.scan_cost);
        self.report.manifest_edits = manifest.edit_count;
        recovery::forget_lost_runs(&store, &mut version);
        recovery::check_files(&store, &version, &self.progress)?;

        let bytes = self.plan.memtable_bytes;
        let replay = recovery::WalReplay::new(&store, &cache, &self.pool, bytes, &manifest.path);
        let replayed = replay.run(&self.survey, &version, &self.progress)?;
        manifest.check_edits(replayed.outcome.manifest_edits)?;
        self.report.manifest_cut = manifest.cut.take();
        let limits = self.limits();
        recovery::rebuild_indexes(&mut version, limits, &mut self.report, &self.progress)?;
        stored_options::check_budget(&version, &self.stored, &self.options)?;
        replayed.note(&mut self.report);
        let edits = manifest.edit_count;
        let before = Before { edits, staying };
        self.start(store, cache, version, Some(replayed), before, lock)
    }

    fn store(&self, database: DatabaseId) -> Arc<FileStore> {
        FileStore::new(
            self.env.clone(),
            self.dir.to_owned(),
            database,
            self.env.vfs.max_open_files(),
        )
    }

    fn limits(&self) -> GenerationLimits {
        GenerationLimits::of(self.options.unsorted_bytes, self.options.memory_budget)
    }

    /// Writes the new manifest and WAL segment, sweeps, and puts the engine together.
    fn start(
        &mut self,
        store: Arc<FileStore>,
        cache: Arc<ReadCache>,
        mut version: Version,
        replayed: Option<Replayed>,
        before: Before,
        lock: Box<dyn LockGuard>,
    ) -> Result<Engine> {
        let Replayed {
            memtables,
            expires,
            outcome,
        } = replayed.unwrap_or_default();
        let noted_ms = version.counters.job_clock_ms();
        let clock = Arc::new(Clock::new(&self.env.runtime, noted_ms));
        // Also where nothing expires yet: that this has been opened counts from the first write on.
        version.counters.clock_ms = clock.note_ms();
        clock.noted(self.env.runtime.now());
        if expires || version.expires() {
            clock.need();
        }
        let logged = version.counters.flushed_seq.max(outcome.last_seq);
        let history = version.counters.history.as_ref();
        let last_seq = history.map_or(logged, |history| history.vouched().max(logged));
        let window = self.window(&store, &cache, &mut version, &outcome, last_seq)?;
        self.progress.check_process()?;
        let bytes = self.plan.memtable_bytes;
        let space = FullDisk::at_open(&store, bytes, !self.options.in_memory);
        let wal_number = self.take_number();
        // Old segments are needed as long as a recovered memtable is not in tables. The durable
        // point stays where it was, at a segment whose name is known to be durable: a sync of the
        // directory that was to cover a later one may have failed, and no sync makes up for that.
        let known = version.counters.wal_low_water;
        let low_water = memtables.first().map_or(wal_number, |m| m.wal.min(known));
        version.counters.wal_low_water = low_water;
        version.counters.options = stored_options::encode(&self.to_store);
        let first = write_first(&store, &space, &mut version, before, &mut self.next_file)?;
        let (manifest, refused) = (first.manifest, first.refused);
        let wal_sync = WalSync::default();
        self.keep_segments(&store, &wal_sync, low_water, &outcome, &window)?;
        let (past, kept) = window.numbers();
        let needed = Needed {
            version: &version,
            manifest: manifest.number(),
            low_water,
            abandoned: &outcome.abandoned,
            memtables: &memtables,
            window: (&past, &kept),
        };
        // What the manifest does not list may still be in force until a new one is durable.
        let mut quarantined = Vec::new();
        if refused.is_none() {
            self.report.swept = sweep(&store, &self.survey, &needed);
        } else {
            quarantined = to_quarantine(&store, &self.survey, &needed);
        }
        let is_needed = !memtables.is_empty();
        let has_window = self.options.change_window_bytes > 0;
        let is_linked = (is_needed || has_window) && !seeded!(UnlinkedAtOpen);
        let prev = outcome.last.filter(|_| is_linked);
        // Reads need no log: on a full disk it begins once there is room, after the manifest.
        let begin = || wal_sync.begin(&store, wal_number, prev, manifest.edits(), last_seq);
        let begun = refused.map_or_else(begin, Err);
        if begun.is_ok() && !is_needed && prev.is_some() {
            // The log is said to begin with it.
            store.sync_directory()?;
        }
        let (wal, refused) = match begun {
            Ok(begun) => (Some(begun), None),
            Err(error) if error.kind() == ErrorKind::DiskFull => (None, Some(error)),
            Err(error) => return Err(error),
        };
        let memtable = Memtable::new(&self.pool, version.counters.hash_seed);
        let memtable = MemtableHandle::new(memtable, wal_number);
        let commit = Commit {
            wal,
            last_seq,
            memtable: memtable.clone(),
            freed: Freed::default(),
            is_watched: false,
        };
        let amp = self.options.max_space_amp;
        space.note_data(Space::of(&version, Horizon::default(), amp).file_bytes());
        space.probe(&store, self.pool.used_bytes());
        let targets = Targets::resumed(&version, self.limits());
        let limits =
            PartitionLimits::new(self.options.partition_bytes, self.options.unsorted_bytes);
        let scan_merge_limit = self.options.scan_merge_limit as usize;
        let figures = PartitionFigures::new(&version, &targets, limits, scan_merge_limit);
        let version = Arc::new(version);
        let in_memory = memtables.iter().filter_map(|m| m.table.max_seq()).max();
        let view = View {
            memtable,
            sealed: memtables.into_iter().rev().collect(),
            version: Arc::clone(&version),
            clock: Arc::clone(&clock),
        };
        let generations = version.partitions().iter().flat_map(|p| &p.generations);
        let last_generation = generations.map(|g| g.id.0).max().unwrap_or_default();
        let catalog = CatalogState {
            gone: GoneKeyspaces::before_opening(&version, in_memory),
            targets,
            figures,
            version,
            manifest_snapshot_len: manifest.len(),
            manifest,
            append_tried: false,
            quarantined,
            last_generation: Arc::new(AtomicU64::new(last_generation)),
        };
        let memory = Arbiter::new(
            self.plan.clone(),
            &self.pool,
            &cache,
            self.progress.process.clone(),
        );
        memory.look_at(&view);
        let engine = Engine::new(EngineParts {
            core: CoreParts {
                options: self.options.clone(),
                store,
                cache,
                pool: Arc::clone(&self.pool),
                memory,
                clock,
                hash_seed: catalog.version.counters.hash_seed,
                next_file: self.next_file,
                counted_before: self.counted_before.clone(),
                visible_page: first.visible_page,
                directory: lock,
                events: mem::take(&mut self.events),
                outside: self.outside.clone(),
                progress_panics: self.progress.panics(),
            },
            full_disk: space,
            view,
            last_seq,
            commit,
            wal_sync,
            catalog,
        });
        if let Some(error) = refused {
            engine.write.poison_wal(&error);
        }
        let edits = engine.catalog.manifest_edits();
        engine.core.visible_page.begin(last_seq, logged, edits);
        engine.core.window_files.recover(window.files);
        Ok(engine)
    }
}
