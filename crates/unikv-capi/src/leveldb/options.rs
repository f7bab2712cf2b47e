//! The options with which a database is opened.
//!
//! LevelDB's are translated where something here has their meaning; the others are accepted. The
//! defaults are LevelDB's where a program notices: nothing is created that is missing.

use super::comparator::{Comparator, Given};
use super::small::{Cache, Env, FilterPolicy, Logger};
use crate::boundary::args::{Alone, Ending, New, Optional, end};
use crate::boundary::capi;
use crate::boundary::handles::object;
use std::ffi::c_int;
use std::sync::{Arc, Weak};
use unikv::{Compression, Tuning};

/// LevelDB's write buffer, where the program has not set one.
const USUAL_WRITE_BUFFER: u64 = 4 << 20;
/// The least memory that a cache of the program's stands for.
const LEAST_MEMORY: u64 = 32 << 20;

/// Options of a database.
#[derive(Default)]
pub struct Options {
    /// What was set by LevelDB's functions and by name.
    pub(crate) engine: unikv::Options,
    /// Whether a database may be made where there is none.
    pub(crate) create_if_missing: bool,
    /// Whether a database that is there is refused.
    pub(crate) error_if_exists: bool,
    /// Does not keep the comparator.
    pub(crate) comparator: Option<Weak<Given>>,
    pub(crate) write_buffer: Option<u64>,
    pub(crate) cache: Option<u64>,
    /// The memory budget that was set by name, which counts more than a cache.
    pub(crate) memory_budget: Option<u64>,
    /// What was set by name for a keyspace.
    pub(crate) keyspace: unikv::KeyspaceOptions,
    /// What was set first, or forgotten, that a keyspace does not take.
    pub(crate) not_for_keyspaces: Option<&'static str>,
}

object!(Options, "unikv_options_t", b"ukv:opts");

impl Options {
    /// As the engine has them.
    pub(crate) fn for_opening(&self) -> unikv::Options {
        let options = self.engine.clone();
        match self.cache.filter(|_| self.memory_budget.is_none()) {
            None => options,
            Some(cache) => {
                let buffers = self
                    .write_buffer
                    .unwrap_or(USUAL_WRITE_BUFFER)
                    .saturating_mul(4);
                options.memory_budget(cache.saturating_add(buffers).max(LEAST_MEMORY))
            }
        }
    }

    /// Changes the engine's options.
    pub(crate) fn change(&mut self, change: impl FnOnce(unikv::Options) -> unikv::Options) {
        self.engine = change(std::mem::take(&mut self.engine));
    }
}

capi! { functions:
    /// Options with LevelDB's defaults.
    fn unikv_options_create() -> New<Options> {
        New::of(Options::default())
    }

    /// Ends the options.
    fn unikv_options_destroy(options: Ending<Options>) {
        end(options);
    }

    /// Sets a comparator: see `unikv_comparator_create`. It must not be destroyed before the
    /// options are used for the last time.
    fn unikv_options_set_comparator(
        options: Alone<Options>, comparator: Optional<Comparator>
    ) {
        options.comparator = comparator.map(|comparator| Arc::downgrade(&comparator.0));
    }

    /// Accepted without a meaning: hash indexes serve here, and a policy is never asked.
    fn unikv_options_set_filter_policy(
        options: Alone<Options>, policy: Optional<FilterPolicy>
    ) {
        let _ = (&options, policy);
    }

    /// Whether a database is made where there is none. Default: 0.
    fn unikv_options_set_create_if_missing(options: Alone<Options>, yes: u8) {
        options.create_if_missing = yes != 0;
    }

    /// Whether opening a database that exists is an error. Default: 0.
    fn unikv_options_set_error_if_exists(options: Alone<Options>, yes: u8) {
        options.error_if_exists = yes != 0;
    }

    /// Accepted without a meaning: everything is verified in any case.
    fn unikv_options_set_paranoid_checks(options: Alone<Options>, yes: u8) {
        let _ = (&options, yes);
    }

    /// Accepted without a meaning: there is one environment.
    fn unikv_options_set_env(options: Alone<Options>, env: Optional<Env>) {
        let _ = (&options, env);
    }

    /// Accepted without a meaning: nothing is logged to files.
    fn unikv_options_set_info_log(options: Alone<Options>, logger: Optional<Logger>) {
        let _ = (&options, logger);
    }

    /// Bytes that are collected in memory before they are sorted into files, at most a twelfth of
    /// the memory. Default: what UniKV finds right, not LevelDB's 4 MiB.
    fn unikv_options_set_write_buffer_size(options: Alone<Options>, bytes: usize) {
        let bytes = bytes.max(64 << 10) as u64;
        options.write_buffer = Some(bytes);
        options.change(|engine| engine.tuning(Tuning::default().memtable_bytes(bytes)));
    }

    /// Accepted without a meaning: open files are bounded by what the process may have.
    fn unikv_options_set_max_open_files(options: Alone<Options>, files: c_int) {
        let _ = (&options, files);
    }

    /// The memory to be used: the bytes of the cache and four write buffers, at least 32 MiB.
    /// Without one it is 256 MiB, or what is stored in the database.
    fn unikv_options_set_cache(options: Alone<Options>, cache: Optional<Cache>) {
        options.cache = cache.map(|cache| cache.capacity);
    }

    /// Bytes of a block of keys, between 256 bytes and 1 MiB. Default: 4 KiB.
    fn unikv_options_set_block_size(options: Alone<Options>, bytes: usize) {
        options.change(|engine| engine.tuning(Tuning::default().block_bytes(bytes.clamp(256, 1 << 20) as u32)));
    }

    /// Accepted without a meaning.
    fn unikv_options_set_block_restart_interval(options: Alone<Options>, keys: c_int) {
        let _ = (&options, keys);
    }

    /// Bytes of a table of keys. Default: 2 MiB.
    fn unikv_options_set_max_file_size(options: Alone<Options>, bytes: usize) {
        options.change(|engine| engine.tuning(Tuning::default().key_table_bytes(bytes.max(64 << 10) as u64)));
    }

    /// How values are compressed: `unikv_no_compression`; `unikv_snappy_compression`, in the place
    /// of which LZ4 is used; `unikv_zstd_compression`. Default: not at all, or what is stored.
    fn unikv_options_set_compression(options: Alone<Options>, kind: c_int) {
        let compression = match kind {
            0 => Compression::None,
            1 => Compression::Lz4,
            2 => Compression::zstd(3),
            _ => {
                let what = format!("there is no compression {kind}");
                return Err(crate::boundary::fault::Fault::misuse(&what, "use one of the enum"));
            }
        };
        options.change(|engine| engine.compression(compression));
    }
}
