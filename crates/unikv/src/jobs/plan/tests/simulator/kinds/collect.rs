//! Garbage collections.

use super::{Ended, Kind, takes_nothing};
use crate::jobs::plan::tests::simulator::oracle::{Candidate, may_take};
use crate::jobs::plan::tests::simulator::world::World;
use crate::jobs::plan::{COLLECT, Filter, Job, Pass, rules};

/// Due while there is more garbage than may be, where values live in files with much of it. Each
/// partition that has failed is collected alone.
pub(super) const COLLECTIONS: Kind = Kind {
    rule: rules::collect::COLLECTIONS,
    is_flush: false,
    may_fail: true,
    candidates: |world, filter| {
        let Some(pass) = world.next_collection(filter) else {
            assert!(!is_missed(world, filter), "a collection is due: {world:#?}");
            return Vec::new();
        };
        check(world, filter, &pass);
        Candidate::only(pass.partitions)
    },
    begin: takes_nothing,
    end: |world, running, _| {
        let Job::Collect(pass) = &running.job else {
            panic!("a collection is no such job");
        };
        let files = pass.files.iter().copied().collect();
        let to = world.new_file();
        let mut moved = 0;
        for id in &pass.partitions {
            let Some(at) = world.position(*id) else {
                panic!("a collection holds {id:?}, which is not there");
            };
            moved += world.move_values(at, &files, to);
        }
        if moved == 0 {
            Ended::Nothing
        } else {
            Ended::Done
        }
    },
};

/// Whether victims have values in a partition that may be collected, and no job holds another.
fn is_missed(world: &World, filter: Filter) -> bool {
    let victims = world.victims();
    let may = |id| may_take(world, filter, COLLECT, id);
    let mut all = world.partitions.iter();
    let is_any = all.any(|p| p.live_in(&victims) > 0 && may(p.id));
    let are_others_at_work = filter == Filter::Worker && !world.leased.is_empty();
    is_any && !are_others_at_work
}

fn check(world: &World, filter: Filter, pass: &Pass) {
    let files = pass.files.iter().copied().collect();
    let all = pass.partitions.iter().filter_map(|id| world.get(*id));
    let all: Vec<_> = all.collect();
    assert!(world.excess() > 0, "garbage is within its bounds");
    assert!(all.iter().all(|p| p.live_in(&files) > 0), "nothing to move");
    let may_be_taken = all.iter().all(|p| may_take(world, filter, COLLECT, p.id));
    assert!(may_be_taken, "a partition may not be taken");
    assert!(all.is_sorted_by_key(|p| &p.start), "not in key order");
    let cost: u64 = all
        .iter()
        .map(|p| p.live_in(&files) + p.sorted_bytes())
        .sum();
    let mut failed = all
        .iter()
        .map(|p| world.failures.has_failed((COLLECT, Some(p.id))));
    let is_small = cost <= world.most_together_bytes && !failed.any(|it| it);
    assert!(all.len() == 1 || is_small, "too much for one job");
}
