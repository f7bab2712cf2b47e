//! Splits.

use super::{Ended, Kind, Running, takes_nothing};
use crate::jobs::plan::tests::simulator::oracle::{Candidate, may_take};
use crate::jobs::plan::tests::simulator::partition::{Generation, Partition, key_between};
use crate::jobs::plan::tests::simulator::world::World;
use crate::jobs::plan::{COLLECT, Job, MERGE, rules};
use rand::Rng;
use rand::rngs::SmallRng;

const NAME: &str = "split";

/// Due where a partition has outgrown its size and may begin another generation. On a full disk
/// also due where a merge or a collection has lacked space and two key tables can be divided. The
/// largest comes first.
pub(super) const SPLIT: Kind = Kind {
    rule: rules::split::SPLIT,
    is_flush: false,
    may_fail: true,
    candidates: |world, filter| {
        let lacks_space = |p: &Partition| {
            let mut jobs = [MERGE, COLLECT].into_iter();
            let lacked_space = jobs.any(|job| world.failures.lacked_space((job, Some(p.id))));
            world.disk.is_full && lacked_space && p.key_tables.len() >= 2
        };
        let is_too_large = |p: &Partition| {
            let is_outgrown = p.is_outgrown(world.most_bytes) && !p.has_all_generations();
            is_outgrown || lacks_space(p)
        };
        let due = world.partitions.iter().filter(|p| is_too_large(p));
        let due = due.filter(|p| may_take(world, filter, NAME, p.id));
        due.map(|p| Candidate::by_most(p.bytes(), p.id)).collect()
    },
    begin: takes_nothing,
    end: split,
};

/// Splits at the most even border. Each side gets a part of each generation, and none is open.
fn split(world: &mut World, running: &mut Running, rng: &mut SmallRng) -> Ended {
    let Job::Split(id) = running.job else {
        panic!("a split is no such job");
    };
    let Some(at) = world.position(id) else {
        return Ended::Nothing;
    };
    let old = world.partitions[at].clone();
    let Some((_, tables)) = old.border() else {
        return Ended::Nothing;
    };
    let (first, last) = old.keyspaces;
    let living = world.keyspaces.range(first..=last).next();
    let between = living.copied().unwrap_or(first);
    let (left_tables, right_tables) = old.key_tables.split_at(tables);
    let next = world
        .partitions
        .get(at + 1)
        .map(|next| next.start.as_slice());
    let border = key_between(&old.start, next);
    let sides = [(old.start.clone(), first, between), (border, between, last)];
    let [mut left, mut right] = sides.map(|(start, first, last)| Partition {
        id: world.new_id(),
        start,
        keyspaces: (first, last),
        ..Partition::default()
    });
    left.key_tables = left_tables.to_vec();
    right.key_tables = right_tables.to_vec();
    for old in old.frozen.iter().copied().chain(old.open) {
        let of_left = old.bytes * rng.random_range(0..=4) / 4;
        let part = |bytes| (bytes > 0).then_some(Generation { bytes, ..old });
        left.frozen.extend(part(of_left));
        right.frozen.extend(part(old.bytes - of_left));
    }
    for (file, bytes) in old.live {
        let of_left = rng.random_range(0..=bytes);
        let parts = [(&mut left, of_left), (&mut right, bytes - of_left)];
        for (side, part) in parts.into_iter().filter(|(_, part)| *part > 0) {
            side.live.insert(file, part);
        }
    }
    world.replace(at..at + 1, vec![left, right]);
    Ended::Done
}
