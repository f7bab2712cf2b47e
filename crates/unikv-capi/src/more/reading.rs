//! How gets and iterators read, beyond LevelDB's options.

use crate::boundary::args::Alone;
use crate::boundary::capi;
use crate::leveldb::reads_and_writes::ReadOptions;
use std::time::Duration;

capi! { functions:
    /// After how many milliseconds a get fails with `unikv_timed_out`, counted from its call, and
    /// an iterator, counted from when it was made; 0 stands for never. It concerns the same calls
    /// as `unikv_readoptions_set_fill_cache`. The time is compared before each read from the
    /// device, so what is in memory is found in any case.
    fn unikv_readoptions_set_timeout_ms(options: Alone<ReadOptions>, timeout_ms: u64) {
        options.timeout = Some(timeout_ms).filter(|ms| *ms > 0).map(Duration::from_millis);
    }

    /// How many entries iterators that are made with the options read together at first, and after
    /// each seek; 0 stands for few at first, and more as they go on.
    fn unikv_readoptions_set_read_ahead(options: Alone<ReadOptions>, entries: usize) {
        options.read_ahead = Some(entries).filter(|entries| *entries > 0);
    }
}
