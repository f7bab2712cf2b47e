//! When generations are frozen, and so merged, before they are full.

use crate::base::keys::FileNumber;
use crate::engine::background::Background;
use crate::engine::catalog::CatalogState;
use crate::jobs::compact::half_merged::HalfMerged;
use crate::jobs::space::hidden::hidden_by;
use crate::version::{Generation, Partition};
use std::sync::Arc;

impl Background {
    /// Freezes every generation between the bounds that has a table with a number below `file`.
    /// True: there is none.
    pub(crate) fn freeze_tables_before(
        &self,
        file: FileNumber,
        lower: &[u8],
        upper: &[u8],
    ) -> bool {
        let mut catalog = self.catalog.lock();
        let version = Arc::clone(&catalog.version);
        let has_old = |g: &Generation| g.tables().any(|(_, t)| t.meta().number < file);
        let mut frozen = false;
        let mut done = true;
        let meets = |p: &Partition| p.start.as_slice() < upper && p.range().is_before_end(lower);
        for partition in version.partitions().iter().filter(|p| meets(p)) {
            if partition.generations.iter().any(has_old) {
                done = false;
                let newest_is_old = partition.generations.first().is_some_and(has_old);
                frozen |= newest_is_old && catalog.freeze(partition);
            }
        }
        drop(catalog);
        if frozen {
            self.core.work.notify();
        }
        done
    }

    /// Freezes the open generations that hide and keep most while all hide and keep too much.
    pub(crate) fn freeze_hiding(&self, catalog: &mut CatalogState) {
        let version = Arc::clone(&catalog.version);
        let space = self.space.space_of(&version, self.space.horizon());
        let limit = space.most_hidden(self.space.space_limit());
        if space.unmerged_garbage() <= limit {
            return;
        }
        let half_merged = HalfMerged::of(&version);
        let open = version.partitions().iter().filter_map(|p| {
            let target = catalog.targets.get(&p.id)?;
            let generation = p
                .generations
                .first()
                .filter(|g| g.id == target.generation)?;
            let hidden = hidden_by(p, [generation]);
            Some((hidden + half_merged.kept_by(generation), p))
        });
        let mut open: Vec<_> = open.filter(|(garbage, _)| *garbage > 0).collect();
        let mut garbage: u64 = open.iter().map(|(garbage, _)| garbage).sum();
        open.sort_unstable_by_key(|(garbage, _)| std::cmp::Reverse(*garbage));
        for (its, partition) in open {
            if garbage <= limit {
                return;
            }
            if catalog.freeze(partition) {
                garbage -= its;
            }
        }
    }

    /// Whether generations may hide more than there may be when idle.
    pub(crate) fn holds_too_much(&self) -> bool {
        let version = Arc::clone(&self.read.view.load().version);
        let space = self.space.space_of(&version, self.space.horizon());
        space.is_too_much_when_idle(self.space.space_limit(), 0)
    }

    pub(crate) fn freeze_all(&self) -> bool {
        let frozen = self.catalog.lock().freeze_all();
        if frozen {
            self.core.work.notify();
        }
        frozen
    }
}
