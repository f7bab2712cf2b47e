//! Values of the model: each partition has live bytes in some files, and a file has dead bytes. A
//! file whose last live byte dies or moves is removed.

use super::partition::Partition;
use super::world::World;
use crate::base::keys::FileNumber;
use std::collections::{BTreeMap, BTreeSet};

/// Partitions with values in more files are spread.
const FEW_FILES: usize = 2;

/// Bytes of a file, in all partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct File {
    pub(super) live: u64,
    pub(super) dead: u64,
}

/// Live bytes of a partition, by files.
pub(super) type Live = BTreeMap<FileNumber, u64>;

impl Partition {
    /// Bytes that it has in these files.
    pub(super) fn live_in(&self, files: &BTreeSet<FileNumber>) -> u64 {
        let live = self.live.iter().filter(|(file, _)| files.contains(file));
        live.map(|(_, bytes)| bytes).sum()
    }

    pub(super) fn is_spread(&self) -> bool {
        self.live.len() > FEW_FILES
    }

    /// Bytes that a slice moves out of these files, to make one of two or more.
    pub(super) fn to_move(&self, files: &BTreeSet<FileNumber>) -> u64 {
        let found = self.live.keys().filter(|file| files.contains(file));
        if found.take(2).count() == 2 {
            self.live_in(files)
        } else {
            0
        }
    }
}

impl World {
    pub(super) fn dead_bytes(&self) -> u64 {
        self.files.values().map(|file| file.dead).sum()
    }

    pub(super) fn add_value(&mut self, at: usize, file: FileNumber, bytes: u64) {
        if bytes > 0 {
            *self.partitions[at].live.entry(file).or_default() += bytes;
            self.files.entry(file).or_default().live += bytes;
        }
    }

    /// Lets values of a partition die, those in its oldest files first.
    pub(super) fn kill(&mut self, at: usize, bytes: u64) {
        let mut left = bytes;
        for (number, live) in std::mem::take(&mut self.partitions[at].live) {
            let killed = left.min(live);
            left -= killed;
            if killed < live {
                self.partitions[at].live.insert(number, live - killed);
            }
            self.lose(number, killed);
        }
    }

    /// Moves the values of a partition out of these files into another. The bytes that moved.
    pub(super) fn move_values(
        &mut self,
        at: usize,
        files: &BTreeSet<FileNumber>,
        to: FileNumber,
    ) -> u64 {
        let mut moved = 0;
        for number in files {
            let live = self.partitions[at].live.remove(number).unwrap_or(0);
            self.lose(*number, live);
            moved += live;
        }
        self.add_value(at, to, moved);
        self.note(at);
        moved
    }

    fn lose(&mut self, number: FileNumber, bytes: u64) {
        if let Some(file) = self.files.get_mut(&number) {
            file.live -= bytes;
            file.dead += bytes;
            if file.live == 0 {
                self.files.remove(&number);
            }
        }
    }

    /// Compares the files with those of all partitions.
    pub(super) fn check_files(&self) {
        let mut live = Live::new();
        for (number, bytes) in self.partitions.iter().flat_map(|p| &p.live) {
            *live.entry(*number).or_default() += bytes;
        }
        let files = self.files.iter();
        let of_files: Live = files.map(|(number, file)| (*number, file.live)).collect();
        assert_eq!(live, of_files, "live bytes of files");
    }
}
