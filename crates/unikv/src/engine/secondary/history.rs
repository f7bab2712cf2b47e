//! Which files a secondary has seen.
//!
//! What is read is cached by the number of its file, and numbers are never given twice within a
//! history. A directory into which an older state was restored has another one: its writer gives
//! numbers again. So of each number that was seen a bit is kept.
//!
//! # Invariants
//! - A number stands for the same file for as long as the secondary lives: it comes back after it
//!   has gone in no history.
//! - Files are noted before anything of them is read.
//!
//! No locks.

use crate::base::keys::{FileNumber, FileUid};
use std::collections::HashMap;

/// Who lists files: each says at once all that it lists.
#[derive(Clone, Copy)]
pub(super) enum Lister {
    /// The version.
    Version,
    /// Memtables, whose large values have files of their own that no version lists yet.
    Memtables,
}

/// Numbers in a page of bits.
const PAGE: u64 = 4096;

#[derive(Default)]
pub(super) struct History {
    /// What each lister has listed last.
    listed: [HashMap<FileNumber, FileUid>; 2],
    /// All numbers there have been.
    seen: HashMap<u64, Box<[u64; (PAGE / 64) as usize]>>,
}

impl History {
    /// Notes `files`, all that `lister` has now. False, and nothing is noted: one of them has a
    /// number that stood for another file.
    pub(super) fn note(
        &mut self,
        lister: Lister,
        files: impl Iterator<Item = (FileNumber, FileUid)>,
    ) -> bool {
        let files: HashMap<_, _> = files.collect();
        let is_known = |(number, uid): (&FileNumber, &FileUid)| {
            let mut listed = self.listed.iter().filter_map(|listed| listed.get(number));
            match listed.next() {
                Some(was) => was == uid && listed.all(|was| was == uid),
                None => !self.has_seen(*number),
            }
        };
        if !files.iter().all(is_known) {
            return false;
        }
        for number in files.keys() {
            let (page, word, bit) = place(*number);
            let page = self.seen.entry(page).or_insert_with(|| Box::new([0; _]));
            page[word] |= bit;
        }
        self.listed[lister as usize] = files;
        true
    }

    fn has_seen(&self, number: FileNumber) -> bool {
        let (page, word, bit) = place(number);
        self.seen
            .get(&page)
            .is_some_and(|page| page[word] & bit != 0)
    }
}

/// Page, word and bit of a number.
fn place(FileNumber(number): FileNumber) -> (u64, usize, u64) {
    let within = number % PAGE;
    (number / PAGE, (within / 64) as usize, 1 << (within % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: u64, uid: u64) -> (FileNumber, FileUid) {
        (FileNumber(number), FileUid(uid))
    }

    #[test]
    fn a_number_stands_for_one_file_and_does_not_come_back() {
        let mut history = History::default();
        let mut note = |lister, files: &[_]| history.note(lister, files.iter().copied());
        let (version, memtables) = (Lister::Version, Lister::Memtables);
        assert!(note(version, &[file(7, 70), file(5000, 1)]));
        assert!(note(memtables, &[file(9, 90)]));
        // Another file; one that the other lister knows as another; nothing of it is noted.
        assert!(!note(version, &[file(8, 80), file(7, 71)]));
        assert!(!note(version, &[file(9, 91)]));
        assert!(note(version, &[file(8, 81), file(9, 90)]));
        // The memtable goes, its file stays.
        assert!(note(memtables, &[]));
        assert!(note(version, &[file(9, 90), file(10, u64::MAX)]));
        // What has gone does not come back, as whatever file.
        for gone in [file(7, 70), file(8, 81), file(5000, 1), file(5000, 2)] {
            assert!(!note(version, &[gone]), "{gone:?}");
            assert!(!note(memtables, &[gone]), "{gone:?}");
        }
        assert!(note(
            version,
            &[file(u64::MAX, 1), file(5001, 1), file(4999, 1)]
        ));
    }
}
