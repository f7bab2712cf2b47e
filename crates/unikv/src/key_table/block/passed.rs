//! Entries that a step back has passed and keeps for the steps that follow.

use super::entry::RawEntry;

/// The entries right before the current one, back to a restart, the nearest last; empty unless the
/// last step was back.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    entries: Vec<RawEntry>,
    /// Their keys, one after the other.
    keys: Vec<u8>,
    /// Where each key begins.
    starts: Vec<usize>,
}

impl Passed {
    pub(crate) fn memory_bytes(&self) -> usize {
        self.keys.capacity()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.keys.clear();
        self.starts.clear();
    }

    pub(crate) fn push(&mut self, entry: RawEntry, key: &[u8]) {
        self.entries.push(entry);
        self.starts.push(self.keys.len());
        self.keys.extend_from_slice(key);
    }

    /// Takes the nearest entry and puts its key into `key`.
    pub(crate) fn pop(&mut self, key: &mut Vec<u8>) -> Option<RawEntry> {
        let (entry, start) = self.entries.pop().zip(self.starts.pop())?;
        key.clear();
        key.extend_from_slice(&self.keys[start..]);
        self.keys.truncate(start);
        Some(entry)
    }
}
