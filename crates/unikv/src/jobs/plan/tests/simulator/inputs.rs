//! Input from outside: the first state of a world, and changes by users, reads, the disk and time.

use super::partition::{Generation, Partition};
use super::world::{World, Write};
use crate::base::keys::FileNumber;
use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IteratorRandom;
use std::time::Duration;

/// Memtables that may be sealed: with more, writers wait.
const MOST_SEALED: usize = 6;

/// A world with more partitions has one keyspace at first. Half of these worlds drop it, since one
/// job cannot clear all of its partitions.
const HUGE: usize = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// A memtable is sealed.
    Write,
    /// Something is written to the open memtable.
    Put,
    /// The disk is full, and deletes are to make room there.
    Delete,
    CreateKeyspace,
    DropKeyspace,
    /// It gets new data, as if it were dropped and created.
    EmptyKeyspace,
    Time,
    /// The disk becomes full, or there is room.
    Disk,
    /// The data justify another ballast, for which there may be room.
    Ballast,
    /// Values die that are merged already: they expire.
    Garbage,
    Scan,
    /// A caller begins or ceases to wait for the background.
    Caller,
    /// Reads make indexes or blocks worth their cost.
    Reads,
    /// Reads change the content of the cache, which is to be noted.
    Cache,
    /// Data begins or ceases to expire.
    Expiry,
    /// Memory is lent or taken, which changes the size of generations.
    Limits,
}

const ALL: [Input; 16] = [
    Input::Write,
    Input::Put,
    Input::Delete,
    Input::CreateKeyspace,
    Input::DropKeyspace,
    Input::EmptyKeyspace,
    Input::Time,
    Input::Disk,
    Input::Ballast,
    Input::Garbage,
    Input::Scan,
    Input::Caller,
    Input::Reads,
    Input::Cache,
    Input::Expiry,
    Input::Limits,
];

/// The frequencies of the inputs of one history. They differ from history to history, and some
/// inputs never come.
pub(super) struct Habits {
    inputs: Vec<Input>,
}

impl Habits {
    pub(super) fn new(rng: &mut SmallRng) -> Habits {
        let often = |input: Input, rng: &mut SmallRng| match input {
            Input::Write => [1, 8, 32][rng.random_range(0..3)],
            Input::Time => [4, 16][rng.random_range(0..2)],
            _ => [0, 1, 4][rng.random_range(0..3)],
        };
        let inputs = ALL.iter();
        let inputs = inputs.flat_map(|input| std::iter::repeat_n(*input, often(*input, rng)));
        Habits {
            inputs: inputs.collect(),
        }
    }

    pub(super) fn next(&self, rng: &mut SmallRng) -> Input {
        self.inputs[rng.random_range(0..self.inputs.len())]
    }
}

/// A world with this many partitions.
pub(super) fn new_world(partitions: usize, rng: &mut SmallRng) -> World {
    let mut world = World::new();
    let shared = 20 * partitions as u64 * rng.random_range(1..=8);
    world.most_unsorted_bytes = shared.max(4 * world.generation_bytes);
    world.merges_since_join = rng.random_range(0..=5);
    world.hints_left = [0, 5][rng.random_range(0..2)];
    world.expires = rng.random();
    world.failing = [0, 0, 100, 500][rng.random_range(0..4)];
    world.note_clock_at = world.expires.then_some(world.now);
    world.most_together_bytes = [0, 200, 1_000, 10_000][rng.random_range(0..4)];
    world.garbage_begins_at = [100, 1_000][rng.random_range(0..2)] * (1 + partitions as u64 / 4);
    world.may_cluster = rng.random_ratio(3, 4);
    world.slice_bytes = [50, 1_000][rng.random_range(0..2)];
    world.copies_left = rng.random_range(0..=8_000);
    world.lack_indexes = rng.random();
    world.has_ballast = rng.random();
    world.has_room = rng.random();
    world.is_asked_for = rng.random_ratio(1, 4);
    world.last_write = world.now;
    let is_huge = partitions > HUGE;
    let keyspaces = [1, 4, 50][rng.random_range(0..3)].min(partitions);
    let keyspaces = if is_huge { 1 } else { keyspaces };
    let size = [0, 100, 1_000, 4_000][rng.random_range(0..4)];
    let unmerged = rng.random_range(0..=4);
    let all: Vec<_> = (0..partitions)
        .map(|n| {
            let keyspace = (n * keyspaces / partitions) as u32;
            let start = (n as u32).to_be_bytes().to_vec();
            new_partition(&mut world, start, keyspace, size, unmerged, rng)
        })
        .collect();
    world.last_keyspace = keyspaces as u32 - 1;
    world.keyspaces = (0..keyspaces as u32).collect();
    world.replace(0..0, all);
    add_values(&mut world, rng);
    let some_are_dropped = is_huge || rng.random_ratio(1, 4);
    for keyspace in 0..keyspaces as u32 {
        if some_are_dropped && rng.random() {
            world.drop_keyspace(keyspace);
        }
    }
    world
}

fn new_partition(
    world: &mut World,
    start: Vec<u8>,
    keyspace: u32,
    most: u64,
    unmerged: usize,
    rng: &mut SmallRng,
) -> Partition {
    let tables = rng.random_range(0..=4) * u64::from(rng.random_ratio(3, 4));
    let table = |rng: &mut SmallRng| rng.random_range(1..=1 + most / 4);
    // A file that the partition shares with others, perhaps.
    let file = |world: &mut World, rng: &mut SmallRng| {
        let is_new = rng.random_ratio(1, 8);
        let last = world.last_file();
        let files = last.saturating_sub(4)..=last;
        let old = files.filter(|file| *file > 0).choose(rng).map(FileNumber);
        old.filter(|_| !is_new).unwrap_or_else(|| world.new_file())
    };
    let mut generation = |bytes: u64| Generation {
        bytes: rng.random_range(1..=bytes),
        oldest_file: file(world, rng),
        tables: rng.random_range(1..=6),
        has_tombstones: rng.random_ratio(1, 8),
        are_tombstones_counted: false,
        hides: rng.random_ratio(1, 32),
    };
    let frozen = (0..unmerged).map(|_| generation(100)).collect();
    let open = generation(1);
    Partition {
        id: world.new_id(),
        start,
        keyspaces: (keyspace, keyspace),
        frozen,
        open: rng.random_ratio(1, 4).then_some(open),
        key_tables: (0..tables).map(|_| table(rng)).collect(),
        ..Partition::default()
    }
}

/// Spreads values of merged partitions over files, which are partly dead.
fn add_values(world: &mut World, rng: &mut SmallRng) {
    let files: Vec<_> = (0..8).map(|_| world.new_file()).collect();
    for at in 0..world.partitions.len() {
        if world.partitions[at].key_tables.is_empty() {
            continue;
        }
        for _ in 0..rng.random_range(0..=4) {
            let file = files[rng.random_range(0..files.len())];
            world.add_value(at, file, rng.random_range(1..=200));
        }
        if rng.random_ratio(1, 4) {
            world.kill(at, rng.random_range(1..=200));
        }
        world.note(at);
    }
}

pub(super) fn apply(input: Input, world: &mut World, rng: &mut SmallRng) {
    let some_keyspace = |world: &World, rng: &mut SmallRng| {
        let keyspaces = world.keyspaces.iter();
        keyspaces.copied().choose(rng)
    };
    match input {
        Input::Write => seal(world, rng),
        Input::Put if !world.keyspaces.is_empty() => {
            let write = new_write(world, rng);
            world.open.push(write);
            world.last_write = world.now;
            world.changed();
        }
        Input::Put => {}
        Input::Delete if world.disk.is_full => {
            seal(world, rng);
            world.disk.wants_freeze = true;
        }
        Input::Delete => {}
        Input::CreateKeyspace => world.create_keyspace(),
        Input::DropKeyspace => {
            if let Some(keyspace) = some_keyspace(world, rng) {
                world.drop_keyspace(keyspace);
            }
        }
        Input::EmptyKeyspace => {
            if let Some(keyspace) = some_keyspace(world, rng) {
                world.drop_keyspace(keyspace);
                world.create_keyspace();
            }
        }
        Input::Time => world.pass(Duration::from_millis(rng.random_range(1..=4_000))),
        Input::Disk if world.disk.is_full => world.has_room = true,
        Input::Disk => world.full_begins(),
        Input::Ballast => {
            world.has_ballast = false;
            world.has_room = rng.random();
        }
        Input::Garbage => {
            let at = rng.random_range(0..world.partitions.len());
            let live: u64 = world.partitions[at].live.values().sum();
            world.kill(at, rng.random_range(0..=live));
            world.note(at);
        }
        Input::Scan => {
            let at = rng.random_range(0..world.partitions.len());
            let (charge, lost) = (rng.random_range(0..=400), rng.random_range(0..=200));
            world.change(at, |partition| {
                partition.charge += charge;
                partition.lost_by_scans += lost;
            });
        }
        Input::Caller => world.is_asked_for = !world.is_asked_for,
        Input::Reads => {
            world.index_wishes += rng.random_range(0..=2);
            world.block_wishes += rng.random_range(0..=2);
        }
        Input::Cache => {
            let rest = Duration::from_millis(rng.random_range(0..=5_000));
            world.note_hints_at = Some(world.now + rest);
        }
        Input::Expiry => {
            world.expires = !world.expires;
            if world.expires {
                let rest = Duration::from_millis(rng.random_range(0..=5_000));
                world.note_clock_at = Some(world.now + rest);
            }
        }
        Input::Limits => {
            world.generation_bytes = rng.random_range(20..=200);
            world.changed();
        }
    }
}

/// A write to some keyspace that exists.
fn new_write(world: &World, rng: &mut SmallRng) -> Write {
    let nth = rng.random_range(0..world.keyspaces.len());
    let keyspace = world.keyspaces.iter().nth(nth);
    Write {
        keyspace: *keyspace.expect("it exists"),
        place: rng.random_range(0..1_000_000),
        bytes: rng.random_range(1..=world.generation_bytes * 2),
        has_deletes: rng.random_ratio(1, 8),
        hides: rng.random_ratio(1, 8),
    }
}

/// Seals a memtable with writes to some places, if writers need not wait.
fn seal(world: &mut World, rng: &mut SmallRng) {
    if world.sealed.len() >= MOST_SEALED {
        return;
    }
    if world.keyspaces.is_empty() {
        return;
    }
    let mut writes = std::mem::take(&mut world.open);
    for _ in 0..rng.random_range(1..=4) {
        writes.push(new_write(world, rng));
    }
    world.sealed.push_back(writes);
    world.last_write = world.now;
    world.copies_left += 2 * world.generation_bytes;
    world.changed();
}
