//! Work in UnsortedStores that serves scans alone.

use super::{Ended, Kind, takes_nothing};
use crate::jobs::plan::rules;
use crate::jobs::plan::tests::simulator::oracle::{Candidate, is_free, may_take};
use crate::jobs::plan::tests::simulator::partition::Partition;
use rand::Rng;
use std::cmp::Reverse;
use std::time::Duration;

const FREEZE: &str = "freeze for scans";

/// How long nobody must have written before open generations are frozen for scans.
pub(super) const IDLE_FOR_SCANS: Duration = Duration::from_secs(5);

/// Due where an open generation may have many tombstones and these are not counted, once nobody has
/// written for five seconds. Any of them is right.
pub(super) const FREEZE_FOR_SCANS: Kind = Kind {
    rule: rules::freeze::FREEZE_FOR_SCANS,
    is_flush: false,
    may_fail: true,
    candidates: |world, filter| {
        if world.idle_time() < IDLE_FOR_SCANS || world.disk.is_full {
            return Vec::new();
        }
        let due = world.partitions.iter().filter(|p| p.has_tombstones());
        let due = due.filter(|p| may_take(world, filter, FREEZE, p.id));
        due.map(|p| Candidate::by_most(0, p.id)).collect()
    },
    begin: takes_nothing,
    end: |world, running, rng| {
        let at = world.position(running.partitions[0]);
        let Some(at) = at.filter(|at| world.partitions[*at].has_tombstones()) else {
            return Ended::Nothing;
        };
        // It counts them, and they may be few.
        let are_many = rng.random();
        world.change(at, |partition| {
            if let Some(open) = &mut partition.open {
                open.are_tombstones_counted = true;
            }
            if are_many {
                partition.freeze();
            }
        });
        Ended::Done
    },
};

/// Due where scans have lost as much to the newest generation as the merge of its keys costs. Any
/// of them is right.
pub(super) const SCAN_MERGES: Kind = Kind {
    rule: rules::scan_merge::SCAN_MERGES,
    is_flush: false,
    may_fail: true,
    candidates: |world, filter| {
        let due = world.partitions.iter().filter(|p| p.wants_scan_merge());
        let due = due.filter(|p| is_free(world, filter, p.id));
        let candidate = |p: &Partition| Candidate {
            urgency: (0, Reverse(0)),
            partitions: vec![p.id],
        };
        due.map(candidate).collect()
    },
    begin: takes_nothing,
    end: |world, running, _| {
        let Some(at) = world.position(running.partitions[0]) else {
            panic!("a scan merge holds what is not there");
        };
        let wants = world.partitions[at].wants_scan_merge();
        world.change(at, |partition| partition.lost_by_scans = 0);
        if wants { Ended::Done } else { Ended::Nothing }
    },
};
