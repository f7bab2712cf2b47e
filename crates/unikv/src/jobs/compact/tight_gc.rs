//! Choosing what garbage collection reclaims while the disk is full: what needs least space first.
//!
//! The live records of a victim are rewritten, one partition after the other, before anything of
//! it is freed. So the victims are the value logs with fewest live bytes, as many as fit into a
//! quarter of what is free; beside them a pass writes the key tables of its partition that point to
//! them. Where these do not fit, the pass fails, and the scheduler splits the partition. A log with
//! hardly any garbage is left alone: each pass leaves less garbage than it found, so this comes to
//! an end.

use super::gc::{self, FREE_PART, MAX_VICTIMS};
use crate::jobs::compact::left_alone::LeftAlone;
use crate::record::RecordFile;
use crate::version::Version;
use std::sync::Arc;

/// A log is worth it if at least one byte in this many is garbage.
const LEAST_GARBAGE: u64 = 8;

/// The value logs to be reclaimed when `free_bytes` can be written, those with least need first.
pub(crate) fn victims(
    version: &Version,
    free_bytes: u64,
    left_alone: &LeftAlone,
) -> Vec<Arc<RecordFile>> {
    let candidates = gc::candidates(version);
    let candidates = candidates.filter(|(.., file)| !left_alone.contains(file.meta().number));
    let candidates = candidates.filter_map(|(_, live, file)| {
        let bytes = file.meta().record_bytes();
        let dead = bytes.saturating_sub(live);
        (live > 0 && dead >= bytes / LEAST_GARBAGE && dead > 0).then_some((live, file))
    });
    let mut candidates: Vec<(u64, &Arc<RecordFile>)> = candidates.collect();
    candidates.sort_by_key(|(live, _)| *live);
    let mut need = 0;
    let fits = |(live, _): &(u64, &Arc<RecordFile>)| {
        need += live;
        need <= free_bytes / FREE_PART
    };
    let chosen = candidates.into_iter().take(MAX_VICTIMS).take_while(fits);
    chosen.map(|(_, file)| Arc::clone(file)).collect()
}
