//! What is left of a disk after a power cut or the death of its process.

use super::disk::Disk;
use super::inode::{Content, Inode};
use super::names::{Dir, Names};
use super::over::Moment;
use crate::base::sync::Mutex;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The unit that a disk writes whole or not at all.
pub(super) const SECTOR_LEN: usize = 512;

/// What a power cut leaves of the bytes and names that were not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Nothing of it.
    Nothing,
    /// All of it.
    All,
    /// The first n changes, in the order in which they were made over all files and names:
    /// see [`SimVfs::pending_changes`](super::SimVfs::pending_changes).
    First(u64),
    /// In each file a random prefix; of the changed names a random subset, in order. The number is
    /// the seed.
    Prefix(u64),
    /// A random subset of the sectors that are not durable, each in one of the states that the
    /// writes gave it; each file as long as some write made it or in between, with zeros where its
    /// size outlived its bytes; of the changed names a random subset, in order. The number is the
    /// seed.
    Sectors(u64),
    /// In each file random sectors, among others that hold zeros, garbage or bytes from elsewhere
    /// in the file; of the changed names a random subset, in order. The number is the seed.
    Torn(u64),
}

impl Disk {
    pub(super) fn after_power_cut(&self, keep: Keep) -> Disk {
        let mut cut = Cut::new(keep, self);
        let mut disk = Disk {
            next_inode: self.next_inode,
            free: self.free,
            clock: self.clock,
            ..Disk::default()
        };
        for (path, dir) in &self.dirs {
            if dir.removed.is_some_and(|at| cut.survives(at)) {
                continue;
            }
            let moved = dir.moved.as_ref().filter(|moved| !cut.survives(moved.at));
            let path = moved.map_or(path, |moved| &moved.from);
            let names = cut.names(dir);
            let durable_names = names.clone();
            disk.dirs.insert(
                path.clone(),
                Dir {
                    held_as: None,
                    names,
                    durable_names,
                    ..Dir::default()
                },
            );
        }
        disk
    }

    pub(super) fn after_process_kill(&self) -> Disk {
        let mut copies = Copies::default();
        let mut disk = Disk {
            next_inode: self.next_inode,
            free: self.free,
            clock: self.clock,
            ..Disk::default()
        };
        for (path, dir) in &self.dirs {
            let mut copy = |names: &Names| copies.names(names, Content::clone);
            let (mut names, durable_names) = (copy(&dir.durable_names), copy(&dir.durable_names));
            let mut pending = dir.pending.clone();
            for (op, _) in &mut pending {
                op.each_inode(|inode| *inode = copies.inode(inode, Content::clone));
                op.apply(&mut names);
            }
            let dir = Dir {
                held_as: None,
                removed: dir.removed,
                moved: dir.moved.clone(),
                names,
                durable_names,
                pending,
                doubtful: dir.doubtful,
            };
            disk.dirs.insert(path.clone(), dir);
        }
        disk
    }
}

/// The copies of a disk's files, one for each however many names it has.
#[derive(Default)]
struct Copies {
    by_id: BTreeMap<u64, Arc<Inode>>,
}

impl Copies {
    fn inode(&mut self, inode: &Inode, content: impl FnOnce(&Content) -> Content) -> Arc<Inode> {
        let copy = || {
            let content = Mutex::new(content(&inode.content.lock()));
            Arc::new(Inode {
                id: inode.id,
                content,
            })
        };
        Arc::clone(self.by_id.entry(inode.id).or_insert_with(copy))
    }

    fn names(&mut self, names: &Names, mut content: impl FnMut(&Content) -> Content) -> Names {
        let copy =
            |(name, inode): (&String, &Arc<Inode>)| (name.clone(), self.inode(inode, &mut content));
        names.iter().map(copy).collect()
    }
}

/// One power cut in progress: its choices come from one generator, in the order of the names.
pub(super) struct Cut {
    pub(super) keep: Keep,
    pub(super) rng: SmallRng,
    copies: Copies,
    /// With [`Keep::First`]: the first moment of which nothing survives.
    pub(super) end: Moment,
}

impl Cut {
    fn new(keep: Keep, disk: &Disk) -> Cut {
        let seed = match keep {
            Keep::Nothing | Keep::All | Keep::First(_) => 0,
            Keep::Prefix(seed) | Keep::Sectors(seed) | Keep::Torn(seed) => seed,
        };
        let end = match keep {
            Keep::First(n) => {
                let first_lost = usize::try_from(n).ok();
                let moments = disk.pending();
                *first_lost
                    .and_then(|n| moments.get(n))
                    .unwrap_or(&Moment::MAX)
            }
            _ => Moment::MAX,
        };
        Cut {
            keep,
            rng: SmallRng::seed_from_u64(seed),
            copies: Copies::default(),
            end,
        }
    }

    /// Whether one more thing that was not durable survives.
    pub(super) fn survives(&mut self, made: Moment) -> bool {
        match self.keep {
            Keep::Nothing => false,
            Keep::All => true,
            Keep::First(_) => made < self.end,
            Keep::Prefix(_) | Keep::Sectors(_) | Keep::Torn(_) => self.rng.random(),
        }
    }

    fn names(&mut self, dir: &Dir) -> Names {
        let mut survivors = dir.durable_names.clone();
        for (op, made) in &dir.pending {
            if self.survives(*made) {
                op.apply(&mut survivors);
            }
        }
        let mut copies = std::mem::take(&mut self.copies);
        let names = copies.names(&survivors, |content| self.content(content));
        self.copies = copies;
        names
    }

    fn content(&mut self, content: &Content) -> Content {
        if let Some(over) = &content.over {
            return Content::durable(self.written_over(content, over));
        }
        let full_len = content.bytes().len();
        let len = self.surviving_len(content);
        let intact = content.doubtful.is_empty() && content.durable_len == full_len;
        if self.keep == Keep::All || intact {
            return Content::durable(content.shared_bytes());
        }
        let mut bytes = content.bytes()[..len].to_vec();
        self.lose_doubtful(&mut bytes, content);
        match self.keep {
            Keep::Sectors(_) => self.lose_sectors(&mut bytes, content),
            Keep::Torn(_) => self.tear(&mut bytes, content.durable_len),
            _ => {}
        }
        Content::durable(Arc::new(bytes))
    }

    /// Decides about what failed syncs were to cover: as a whole, or sector by sector.
    fn lose_doubtful(&mut self, bytes: &mut [u8], content: &Content) {
        for range in &content.doubtful {
            let end = range.end.min(content.durable_len);
            let whole = !matches!(self.keep, Keep::Sectors(_));
            let mut start = range.start;
            while start < end {
                let next = if whole { end } else { sector_end(start, end) };
                // Its moment is past: of a sequence of changes it is never sure to be part.
                if !self.survives(Moment::MAX) {
                    bytes[start..next].fill(0);
                }
                start = next;
            }
        }
    }

    /// The new length of a file: each end is likely, as both are easily got wrong.
    fn surviving_len(&mut self, content: &Content) -> usize {
        let (durable_len, full_len) = (content.durable_len, content.bytes().len());
        match self.keep {
            Keep::Nothing => durable_len,
            Keep::All => full_len,
            Keep::First(_) => {
                let survives = |&&(_, made): &&(usize, Moment)| made < self.end;
                let last = content.writes.iter().take_while(survives).last();
                last.map_or(durable_len, |&(len, _)| len)
            }
            Keep::Sectors(_) if self.rng.random_range(0..3) == 0 => {
                let write = content.writes.choose(&mut self.rng);
                write.map_or(durable_len, |&(len, _)| len)
            }
            Keep::Prefix(_) | Keep::Sectors(_) | Keep::Torn(_) => match self.rng.random_range(0..4)
            {
                0 => durable_len,
                1 => full_len,
                _ => self.rng.random_range(durable_len..=full_len),
            },
        }
    }

    /// Gives each sector after the durable end its last state, the durable one, or one between:
    /// how full it was after some write.
    fn lose_sectors(&mut self, bytes: &mut [u8], content: &Content) {
        let mut start = content.durable_len;
        while start < bytes.len() {
            let end = sector_end(start, bytes.len());
            let filled = match self.rng.random_range(0..4) {
                0 | 1 => end,
                2 => start,
                _ => {
                    let write = content.writes.choose(&mut self.rng);
                    write.map_or(end, |&(len, _)| len.clamp(start, end))
                }
            };
            bytes[filled..end].fill(0);
            start = end;
        }
    }

    /// Decides about each sector after `durable_len`. A sector that was durable in part keeps
    /// that part whatever happens to the rest.
    pub(super) fn tear(&mut self, bytes: &mut [u8], durable_len: usize) {
        let mut start = durable_len;
        while start < bytes.len() {
            let end = sector_end(start, bytes.len());
            match self.rng.random_range(0..8) {
                0..4 => {}
                4 | 5 => bytes[start..end].fill(0),
                6 => self.rng.fill(&mut bytes[start..end]),
                _ => {
                    let from = self.rng.random_range(0..=bytes.len() - (end - start));
                    bytes.copy_within(from..from + (end - start), start);
                }
            }
            start = end;
        }
    }
}

/// Where the sector of `at` ends, or the file.
pub(super) fn sector_end(at: usize, len: usize) -> usize {
    (at / SECTOR_LEN + 1).saturating_mul(SECTOR_LEN).min(len)
}
