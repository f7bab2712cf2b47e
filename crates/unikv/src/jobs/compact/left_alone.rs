//! What passes over the key tables leave as it is, because an earlier one could not read it.
//!
//! A pass in which one record cannot be moved comes to nothing, and the value log that holds it may
//! be the best victim for ever. So an unreadable value log is no victim, and no other makes up for
//! its garbage; an unreadable key table is not written again for what is obsolete in it, and the
//! value logs that it points to are no victims either, since its pointers would keep them.

use crate::base::keys::FileNumber;
use crate::version::Version;
use std::collections::{BTreeSet, HashSet};

/// The files of a version that passes leave as they are.
#[derive(Debug, Default)]
pub(crate) struct LeftAlone(HashSet<FileNumber>);

impl LeftAlone {
    pub(crate) fn of(version: &Version, unreadable: &BTreeSet<FileNumber>) -> LeftAlone {
        let mut files = HashSet::new();
        if !unreadable.is_empty() {
            files.extend(unreadable);
            let tables = version.key_tables().map(|table| table.meta());
            let refs = tables
                .filter(|table| unreadable.contains(&table.number))
                .flat_map(|table| &table.refs);
            files.extend(refs.map(|refs| refs.file));
        }
        LeftAlone(files)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, file: FileNumber) -> bool {
        self.0.contains(&file)
    }
}
