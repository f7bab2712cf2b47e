//! The commands that read, write and inspect a database, one module each.

pub mod backup;
pub mod changes;
pub mod check;
pub mod checkpoint;
pub mod compact;
pub mod completions;
pub mod delete_range;
pub mod dump;
pub mod expiry;
pub mod explain;
pub mod export;
pub mod gc;
pub mod ingest;
pub mod inspect;
pub mod keyspace;
pub mod load;
pub mod options;
pub mod point;
pub mod repair;
pub mod scan;
pub mod shell;
pub mod stats;
pub mod top;

use indicatif::ProgressBar;
use unikv_bench::measure::progress::styled;

/// A bar over a known length of bytes, or a spinner. It shows on a terminal only.
pub(crate) fn byte_progress(length: Option<u64>) -> ProgressBar {
    let (bar, template) = match length {
        Some(length) => (
            ProgressBar::new(length),
            "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}",
        ),
        None => (
            ProgressBar::new_spinner(),
            "{spinner} {bytes} {bytes_per_sec} {msg}",
        ),
    };
    styled(bar, template)
}
