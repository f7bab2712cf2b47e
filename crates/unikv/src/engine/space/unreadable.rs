//! The files in which passes over the key tables have found what they could not read: those leave
//! them alone from then on (see [`crate::jobs::compact::left_alone`]).
//!
//! Damage is known at the first failure; a device that refuses reads may be mended, so a file
//! counts only when passes have failed at it for minutes. Kept until the database is reopened, or
//! the file is gone.
//!
//! Lock: a leaf.

use crate::base::keys::FileNumber;
use crate::base::sync::Mutex;
use crate::error::{Error, ErrorKind};
use std::collections::{BTreeMap, BTreeSet};

/// As many refused reads are a damaged file. With their pauses, eight take two minutes.
const PERSISTENT: u32 = 8;

/// How often passes have failed at which files, and why.
#[derive(Debug, Default)]
pub(crate) struct Unreadable(Mutex<BTreeMap<FileNumber, (u32, Error)>>);

impl Unreadable {
    /// Notes that a pass has failed at a file.
    pub(super) fn note(
        &self,
        file: FileNumber,
        error: &Error,
        is_listed: impl Fn(FileNumber) -> bool,
    ) {
        let failures = match error.kind() {
            ErrorKind::Corruption => PERSISTENT,
            ErrorKind::Io => 1,
            _ => return,
        };
        let mut files = self.0.lock();
        files.retain(|file, _| is_listed(*file));
        let (count, _) = files.entry(file).or_insert_with(|| (0, error.clone()));
        *count = count.saturating_add(failures);
    }

    /// The files that count as unreadable.
    pub(super) fn files(&self) -> BTreeSet<FileNumber> {
        let files = self.0.lock();
        let unreadable = files.iter().filter(|(_, (count, _))| *count >= PERSISTENT);
        unreadable.map(|(file, _)| *file).collect()
    }

    /// What was wrong with the first of them.
    pub(super) fn error(&self) -> Option<Error> {
        let files = self.0.lock();
        let mut unreadable = files.values().filter(|(count, _)| *count >= PERSISTENT);
        unreadable.next().map(|(_, error)| error.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn damage_counts_at_once_and_refused_reads_when_they_persist() {
        let unreadable = Unreadable::default();
        let path = Path::new("f");
        let damaged = Error::corruption(path, 7, "damaged");
        let io = |kind: std::io::ErrorKind| Error::io("read", path, kind.into());
        let [a, b, c] = [1, 2, 3].map(FileNumber);
        unreadable.note(a, &damaged, |_| true);
        unreadable.note(b, &io(std::io::ErrorKind::StorageFull), |_| true);
        for _ in 1..PERSISTENT {
            unreadable.note(c, &io(std::io::ErrorKind::Other), |_| true);
        }
        assert_eq!(unreadable.files(), BTreeSet::from([a]));
        // A file that is gone is forgotten.
        unreadable.note(c, &io(std::io::ErrorKind::Other), |file| file != a);
        assert_eq!(unreadable.files(), BTreeSet::from([c]));
        assert_eq!(unreadable.error().map(|e| e.kind()), Some(ErrorKind::Io));
    }
}
