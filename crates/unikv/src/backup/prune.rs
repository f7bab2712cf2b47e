//! Removing points, and the data files that no other point needs.

use super::Repository;
use super::point::Point;
use crate::base::seeded::slip;
use crate::base::text::Size;
use crate::error::{Error, Result};
use std::collections::HashSet;
use std::fmt;

/// What a pruning has removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// The numbers of the points that are gone, oldest first.
    pub points: Vec<u64>,
    /// The numbers of those that are left.
    pub kept: Vec<u64>,
    /// Data files that no point needed any more.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl fmt::Display for Pruned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (removed, kept) = (self.points.len(), self.kept.len());
        let (files, bytes) = (self.files, Size(self.bytes));
        write!(
            f,
            "{removed} points removed, {kept} kept; {files} files, {bytes}"
        )
    }
}

impl Repository {
    /// Removes all points but the newest `keep`, and what only they needed. A call that fails, or
    /// is interrupted at any moment, leaves each of the points that are kept as it was, and each
    /// of the others whole or gone; the next call does what is left.
    ///
    /// # Errors
    /// `InvalidArgument` if nothing is to be kept; `Corruption` or `Incompatible` if a point cannot
    /// be read: which files it needs is unknown then, and nothing is removed; `NotFound` if there
    /// is no repository; `Locked`, `Io`.
    pub fn prune(&self, keep: usize) -> Result<Pruned> {
        if keep == 0 {
            let what = "no point is to be kept";
            return Err(Error::invalid(
                what,
                "keep one at least, or remove the directory",
            ));
        }
        let layout = self.layout();
        layout.identify()?.ok_or_else(|| self.absent())?;
        let _lock = layout.lock()?;
        layout.restore_pruned()?;
        let numbers = layout.numbers()?;
        let points = numbers.iter().map(|number| layout.read_point(*number));
        let points = points.collect::<Result<Vec<_>>>()?;
        let (gone, kept) = points.split_at(points.len().saturating_sub(keep));
        for point in gone {
            let (from, to) = (
                layout.point(point.number),
                layout.pruned_point(point.number),
            );
            let renamed = layout.vfs.rename(&from, &to);
            renamed.map_err(|e| Error::io("rename the directory", &from, e))?;
        }
        // From here on none of them comes back, whatever is removed.
        let synced = slip!(PruneFilesFirst, Ok(()), layout.sync_dir(&layout.points()));
        synced.inspect_err(|_| layout.take_back(gone))?;
        let needed: HashSet<String> = kept.iter().flat_map(Point::shared_names).collect();
        let mut pruned = Pruned {
            points: gone.iter().map(|point| point.number).collect(),
            kept: kept.iter().map(|point| point.number).collect(),
            ..Pruned::default()
        };
        for name in layout.list(&layout.data())? {
            if needed.contains(&name) {
                continue;
            }
            let path = layout.data().join(name);
            let bytes = layout.vfs.len(&path);
            pruned.bytes += bytes.map_err(|e| Error::io("look at", &path, e))?;
            let removed = layout.vfs.remove(&path);
            removed.map_err(|e| Error::io("remove the file", &path, e))?;
            pruned.files += 1;
        }
        for (_, dir) in layout.pruned()?.into_iter().chain(layout.unfinished()?) {
            layout.remove_dir(&dir)?;
        }
        Ok(pruned)
    }
}
