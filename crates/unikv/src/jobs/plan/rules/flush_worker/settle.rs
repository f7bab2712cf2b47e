//! Settling: what writers leave in the memtable and in open generations may hide much, and is
//! flushed and merged early once they are idle.

use crate::jobs::plan::facts::{IDLE, IDLE_FOR_SCANS};
use crate::jobs::plan::{Facts, Filter, Job, JobName, OfCatalog, OnFailure, Rule, Settling, Why};
use std::time::Duration;

const NAME: JobName = "settle";

/// Seals the memtable and freezes generations where nobody has written for a while and that may be
/// done. A caller that waits settles by itself, and gets the errors of that; what is written
/// meanwhile it does not wait for.
pub(crate) const SETTLE: Rule = Rule {
    name: NAME,
    of_catalog: OfCatalog::Unsettled,
    is_for_reads: false,
    on_failure: OnFailure::Retried,
    listed_for: Filter::Listing,
    find: |facts, filter| {
        if !may_be_due(facts, filter) || !filter.allows(facts, NAME, None) {
            return None;
        }
        let (wanted, why) = wanted(facts, facts.idle.time)?;
        let may = Settling {
            seals: wanted.seals && facts.unsettled.may_seal,
            freezes: wanted.freezes && facts.unsettled.may_freeze,
        };
        (may != Settling::default()).then_some((Job::Settle(may), why))
    },
    due_in: |facts| {
        // Until then nobody knows what they will have left.
        facts.idle_in(IDLE).or_else(|| {
            let unsettled = &facts.unsettled;
            let waits = unsettled.has_many_deletes && unsettled.may_seal;
            let deletes = facts.idle_in(IDLE_FOR_SCANS).filter(|_| waits);
            // What expires is hidden, too.
            let expiry = facts.garbage.look_again_in;
            deletes.into_iter().chain(expiry).min()
        })
    },
};

/// Whether settling may be due. To look what there is takes longer.
pub(crate) fn may_be_due(facts: &Facts<'_>, filter: Filter) -> bool {
    matches!(filter, Filter::Worker | Filter::Listing) && facts.idle.time >= IDLE
}

/// What is to be settled when nobody has written for the time `idle`, whether or not that may be
/// done now.
pub(crate) fn wanted(facts: &Facts<'_>, idle: Duration) -> Option<(Settling, Why)> {
    let unsettled = &facts.unsettled;
    let hides = unsettled.memtable_hides || unsettled.generations_hide;
    let gone = unsettled.gone_await_flush;
    let (wait, why) = match (hides, gone) {
        (true, _) => (IDLE, Why::HidesTooMuch),
        (false, true) => (IDLE, Why::GoneInMemtables),
        (false, false) => (IDLE_FOR_SCANS, Why::ManyDeletes),
    };
    let wanted = Settling {
        seals: unsettled.memtable_hides || unsettled.has_many_deletes || gone,
        freezes: hides,
    };
    (idle >= wait && wanted != Settling::default()).then_some((wanted, why))
}
