//! The options of a database, each with a unit, a default that serves, and its effect.
//!
//! Only `engine` reads [`Options`]; the layers below receive the values they need.

mod effective;
mod instruments;
mod keyspace;
mod read;
mod resolve;
mod secondary;
mod stored;
mod tuning;
mod write;

use crate::codec::Compression;
use crate::events::{Listener, OnProgress};
use crate::vfs::Env;
pub use effective::EffectiveOptions;
pub use keyspace::KeyspaceOptions;
pub use read::ReadOptions;
pub use secondary::SecondaryOptions;
use std::time::Duration;
pub use stored::StoredOption;
pub(crate) use stored::StoredOptions;
pub use tuning::Tuning;
pub use write::WriteOptions;

const LEAST_MEMTABLE_BYTES: u64 = 4 << 10;
const MOST_INLINE_BYTES: u32 = 64 << 10;
/// The memory budget by default.
pub(crate) const DEFAULT_BUDGET: u64 = 256 << 20;

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// Death of the process. A power cut may lose a suffix of the write order.
    #[default]
    Buffered,
    /// As `Buffered`; and the log is synced at least this often, so that a power cut loses at most
    /// that much.
    Periodic(Duration),
    /// A power cut: the log is synced before the write is acknowledged. Waiting writers share one
    /// sync.
    Sync,
}

/// Whether values are copied next to each other in key order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clustering {
    /// Where it is worth it: a merge moves keys only, and the values of up to 256 KiB follow in
    /// pieces of 64 MiB when scans have lost as much by their fragmentation as copying them costs,
    /// or when nothing has been written for a second. Over the life of a database fewer than two
    /// bytes are copied so for each byte that is written.
    #[default]
    Automatic,
    /// Never: for who does not scan. Least writing.
    LeastWriting,
}

/// What an opening finds, or makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Opens {
    /// A database that is there, or a new one.
    #[default]
    Any,
    Existing,
    New,
    /// A new one that is kept in the memory of the process.
    InMemory,
}

/// How a database is opened: defaults that serve, and methods that change one each. Sizes are in
/// bytes.
///
/// Most options are *stored* in the database, where they are set. What is not set stays as it was
/// set at an earlier opening, or else is the default; what is set holds for what is written later,
/// so any stored option may change at any opening, and [`Options::unset`] makes it the default
/// again. The one exception is a memory budget that has become too small for the indexes at hand.
/// [`Db::options`](crate::Db::options) shows what is in effect, and [`StoredOption`] lists what is
/// stored: `env`, `durability`, `background_threads`, listeners and instruments are not.
///
/// ```
/// # use unikv::{Durability, Options};
/// let options = Options::default()
///     .durability(Durability::Sync)
///     .memory_budget(1 << 30);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub(crate) opens: Opens,
    pub(crate) durability: Durability,
    pub(crate) background_threads: usize,
    /// It is a repair that opens what it is writing.
    pub(crate) for_repair: bool,
    /// What the database had noted of its job clock of which this one is made.
    pub(crate) job_clock_ms: Option<u64>,
    /// What the caller has set of the options that are stored.
    pub(crate) asked: StoredOptions,
    /// The stored options that are to be forgotten.
    pub(crate) unset: Vec<StoredOption>,
    pub(crate) listener: Option<Listener>,
    pub(crate) latencies: bool,
    pub(crate) slow_after: Option<Duration>,
    pub(crate) publish_stats: Option<Duration>,
    pub(crate) env: Option<Env>,
    pub(crate) on_progress: Option<OnProgress>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            opens: Opens::default(),
            durability: Durability::Buffered,
            background_threads: 2,
            for_repair: false,
            job_clock_ms: None,
            asked: StoredOptions::default(),
            unset: Vec::new(),
            listener: None,
            latencies: false,
            slow_after: None,
            publish_stats: None,
            env: None,
            on_progress: None,
        }
    }
}

impl Options {
    /// The file system, the threads and the clock of the database. Default: the system's.
    ///
    /// Not stored.
    ///
    /// ```
    /// use unikv::vfs::{Env, MemoryVfs};
    /// use unikv::{Db, Options};
    ///
    /// let files = MemoryVfs::default();
    /// let env = Env { vfs: std::sync::Arc::new(files.clone()), ..Env::os() };
    /// let db = Db::open("/fruit", Options::default().env(env))?;
    /// db.put("apple", "red")?;
    /// db.close()?;
    /// # unikv::Result::Ok(())
    /// ```
    #[must_use]
    pub fn env(mut self, env: Env) -> Options {
        self.env = Some(env);
        self
    }

    /// What a write survives unless the call says otherwise. Default: [`Durability::Buffered`].
    ///
    /// Not stored: what a process promises its callers is its own affair.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// Bytes for everything that the engine allocates: memtables, hash indexes, what is known of
    /// the files, the buffers of jobs and iterators, and the read cache, which gets what the others
    /// leave. Default: 256 MiB. [`Stats::memory`](crate::Stats::memory) says it by part.
    ///
    /// Where the budget is small, memtables, key tables and buffers are smaller than asked for;
    /// with at least 24 MiB it holds for a thousand partitions and hundreds of iterators. What a
    /// caller holds (batches, keys and values handed out) does not count, nor does freed memory
    /// that the program's allocator keeps: glibc's by thread, so it adds up where readers' threads
    /// come and go. A batch larger than a quarter of it may exceed it until it is flushed.
    ///
    /// Stored. It cannot be lowered below twice what the hash indexes of the UnsortedStore take;
    /// the error says how much that is.
    #[must_use]
    pub fn memory_budget(mut self, bytes: u64) -> Options {
        self.asked.memory_budget = Some(bytes);
        self
    }

    /// Values shorter than this many bytes, or than their key, are kept beside their keys in the
    /// SortedStore instead of in a value log. Default: 128, at most 64 KiB: a key block holds its
    /// values whole.
    ///
    /// Stored; may change.
    #[must_use]
    pub fn inline_value_bytes(mut self, bytes: u32) -> Options {
        self.asked.inline_value_bytes = Some(bytes);
        self
    }

    /// Bytes on disk over the keys and values of visible records, at most. Default: 1.5. Less space
    /// costs more writing: garbage collection copies what is live between the dead. For its frames
    /// a record may take 70 bytes more, and its key once more, if the key has more than 32 bytes or
    /// the value less than 256, or if the factor is less than 1.5.
    ///
    /// Beside these the directory holds the log and a spare segment of it, up to twice
    /// `unsorted_bytes` for each background thread while these have work, and a floor of 8 MiB and
    /// eleven times `memtable_bytes`. Of these, up to three, but at most a sixteenth of the data,
    /// are kept back for a full disk. [`Options::change_window_bytes`] come on top. What snapshots
    /// and iterators keep does, too
    /// ([`Stats::pins`]): the bytes of files that are only held, and the bytes of older versions
    /// times the factor. What deletes and released snapshots free is reclaimed without further
    /// writes.
    ///
    /// Stored; may change.
    ///
    /// [`Stats::pins`]: crate::Stats::pins
    #[must_use]
    pub fn max_space_amp(mut self, factor: f64) -> Options {
        self.asked.max_space_amp = Some(factor);
        self
    }

    /// Whether values are copied into key order. Default: [`Clustering::Automatic`].
    ///
    /// Stored; may change.
    #[must_use]
    pub fn clustering(mut self, clustering: Clustering) -> Options {
        self.asked.clustering = Some(clustering);
        self
    }

    /// How values and key blocks are compressed, in the default keyspace and in each that is not
    /// given a setting of its own. Default: [`Compression::None`].
    ///
    /// Stored; may change, for what is written from then on.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Options {
        self.asked.compression = Some(compression);
        self
    }

    /// Keeps about this many bytes of the log beyond what recovery needs, and the large values that
    /// it names, for those that follow the changes: see
    /// [`Db::changes_since`](crate::Db::changes_since). They come on top of what
    /// [`Options::max_space_amp`] allows. Default: 0, which keeps nothing, and notes nothing.
    ///
    /// Stored; may change. Releases without a change feed refuse a database where it is not 0.
    #[must_use]
    pub fn change_window_bytes(mut self, bytes: u64) -> Options {
        self.asked.change_window_bytes = Some(bytes);
        self
    }

    /// Sizes of the engine's parts, for those who have measured that others than the defaults suit
    /// them. What `tuning` does not set stays as it is set.
    #[must_use]
    pub fn tuning(mut self, tuning: Tuning) -> Options {
        self.asked = tuning.asked.or(&self.asked);
        self.background_threads = tuning.background_threads.unwrap_or(self.background_threads);
        self
    }

    /// Forgets an option: the database stores it no longer, and its default holds from this opening
    /// on, unless its method is called afterwards.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("unikv-unset-{}", std::process::id()));
    /// use unikv::{Db, Options, StoredOption};
    ///
    /// Db::open(&dir, Options::default().max_space_amp(2.0))?.close()?;
    /// let db = Db::open(&dir, Options::default())?;
    /// assert_eq!(db.options().max_space_amp, 2.0);
    /// db.close()?;
    /// let db = Db::open(&dir, Options::default().unset(StoredOption::MaxSpaceAmp))?;
    /// assert_eq!(db.options().max_space_amp, 1.5);
    /// # db.close()?;
    /// # Db::destroy(&dir)?;
    /// # unikv::Result::Ok(())
    /// ```
    #[must_use]
    pub fn unset(mut self, option: StoredOption) -> Options {
        self.asked.forget(option);
        self.unset.push(option);
        self
    }

    /// How long values live in the default keyspace that are written from now on, if the write does
    /// not say it: see [`WriteOptions::ttl`]. Default: for ever, as with [`Duration::MAX`].
    ///
    /// Stored; may change.
    #[must_use]
    pub fn default_ttl(mut self, ttl: Duration) -> Options {
        self.asked.default_ttl = Some(ttl);
        self
    }
}
