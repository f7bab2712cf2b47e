//! What garbage there is, and by what it is chosen.
//!
//! What is to be collected is decided in [`crate::jobs::compact::gc`] alone; here it is shown.

use crate::base::keys::{FileNumber, PartitionId};
use crate::base::text::Size;
use crate::engine::space::DiskSpace;
use crate::jobs::compact::gc::Scope;
use crate::jobs::compact::left_alone::LeftAlone;
use crate::jobs::space::garbage::Pressure;
use crate::record::RecordFile;
use crate::version::state::section_worth_a_pass;
use crate::version::{Listed, Partition, Version};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// What a record file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordFileStats {
    /// The number in its name.
    pub number: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of its records.
    pub record_bytes: u64,
    /// Records, dead ones included.
    pub records: u64,
    /// Records that key tables point to.
    pub live_records: u64,
    /// Bytes of those.
    pub live_bytes: u64,
    /// Bytes of its key section, which nobody reads any more, if they are worth a collection.
    pub dead_section_bytes: u64,
    /// Whether it is a table of an UnsortedStore: its merge will decide what is live in it.
    pub is_table: bool,
    /// Its place among the victims if garbage were collected now, the first being 0.
    pub victim: Option<usize>,
}

/// What there is, what is allowed, and what comes next; without the files.
impl fmt::Display for GarbageStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "live          {} in value logs", Size(self.live_bytes))?;
        writeln!(f, "key tables    {}", Size(self.key_table_bytes))?;
        writeln!(f, "garbage       {} in value logs", Size(self.dead_bytes))?;
        let (allowed, amp) = (Size(self.allowed_bytes), self.max_space_amp);
        writeln!(
            f,
            "allowed       {allowed}: max_space_amp {amp} of what is live"
        )?;
        let (riding, alone) = (Size(self.riding_from_bytes), Size(self.alone_from_bytes));
        writeln!(
            f,
            "thresholds    from {riding} merges take victims along, from {alone} collections run alone"
        )?;
        let state = match self.dead_bytes {
            dead if dead > self.alone_from_bytes => "a collection is due",
            dead if dead > self.riding_from_bytes => "the next merge takes victims along",
            _ => "nothing is due",
        };
        write!(f, "next          {state}")?;
        match self.next_partition {
            Some(id) => write!(f, "; most to move is in partition {id}"),
            None => Ok(()),
        }
    }
}

impl RecordFileStats {
    /// Bytes of records and of a key section that nothing needs. Unknown, and so zero, in a table
    /// of an UnsortedStore.
    pub fn dead_bytes(&self) -> u64 {
        if self.is_table {
            0
        } else {
            self.record_bytes.saturating_sub(self.live_bytes) + self.dead_section_bytes
        }
    }
}

/// What garbage collection sees. Bytes are bytes of records in value logs, if not said otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct GarbageStats {
    /// The bound in effect: see [`Options::max_space_amp`](crate::Options::max_space_amp).
    pub max_space_amp: f64,
    /// Bytes that key tables point to.
    pub live_bytes: u64,
    /// Bytes that nothing points to, and those of key sections that are worth a collection.
    pub dead_bytes: u64,
    /// Bytes of key tables, with the small values in them.
    pub key_table_bytes: u64,
    /// Garbage that the bound allows.
    pub allowed_bytes: u64,
    /// Garbage from which merges that run anyway take victims along.
    pub riding_from_bytes: u64,
    /// Garbage from which collections run alone.
    pub alone_from_bytes: u64,
    /// The partition in which victims would be moved first; `None`: nothing would be collected.
    pub next_partition: Option<u64>,
    /// All record files, victims first and in their order, then by number.
    pub files: Vec<RecordFileStats>,
}

impl DiskSpace {
    /// By what garbage is chosen under `pressure`, among the partitions that can run.
    pub(crate) fn scope<'a>(
        &'a self,
        version: &'a Arc<Version>,
        pressure: Pressure,
        can_run: &'a dyn Fn(PartitionId) -> bool,
    ) -> Scope<'a> {
        let limit = self.space_limit();
        Scope {
            version,
            space: self.space_of(version, limit.horizon),
            limit,
            pressure,
            left_alone: self.left_alone(version),
            free_bytes: Box::new(|| self.free_bytes()),
            can_run,
        }
    }

    /// What would be reclaimed under `pressure` if all of it could be read and would fit, and where
    /// first.
    fn all_garbage<'a>(
        &'a self,
        version: &'a Arc<Version>,
        pressure: Pressure,
    ) -> (Vec<Arc<RecordFile>>, Option<&'a Arc<Partition>>) {
        let mut scope = self.scope(version, pressure, &|_| true);
        scope.space.stuck_bytes = 0;
        scope.left_alone = LeftAlone::default();
        scope.free_bytes = Box::new(|| u64::MAX);
        let victims = scope.victims();
        let partition = scope.partition_of(&victims);
        (victims, partition)
    }

    /// Whether anything would be reclaimed so.
    pub(crate) fn has_garbage(&self, version: &Arc<Version>, pressure: Pressure) -> bool {
        self.all_garbage(version, pressure).1.is_some()
    }

    /// What garbage collection would do now with this version, had a caller asked for it.
    pub(crate) fn garbage(&self, version: &Arc<Version>) -> GarbageStats {
        let limit = self.space_limit();
        let space = self.space_of(version, limit.horizon);
        let (victims, next) = self.all_garbage(version, Pressure::Riding);
        let places = victims.iter().enumerate();
        let places = places.map(|(place, file)| (file.meta().number, place));
        GarbageStats {
            max_space_amp: limit.max_space_amp,
            live_bytes: space.live_bytes,
            dead_bytes: space.dead_bytes(),
            key_table_bytes: space.key_table_bytes,
            allowed_bytes: space.allowed_garbage(limit),
            riding_from_bytes: space.begins_at(limit, Pressure::Riding),
            alone_from_bytes: space.begins_at(limit, Pressure::Alone),
            next_partition: next.map(|partition| partition.id.0),
            files: files(version, &places.collect()),
        }
    }
}

fn files(version: &Version, places: &HashMap<FileNumber, usize>) -> Vec<RecordFileStats> {
    let of = |listed: &Listed| {
        let (meta, live) = (listed.file.meta(), listed.used.live);
        RecordFileStats {
            number: meta.number.0,
            file_bytes: meta.len,
            record_bytes: meta.record_bytes(),
            records: meta.count,
            live_records: live.count,
            live_bytes: live.bytes,
            dead_section_bytes: section_worth_a_pass(meta),
            is_table: listed.is_table(),
            victim: places.get(&meta.number).copied(),
        }
    };
    let mut files: Vec<_> = version.record_files().listed().map(of).collect();
    files.sort_by_key(|file| (file.victim.unwrap_or(usize::MAX), file.number));
    files
}
