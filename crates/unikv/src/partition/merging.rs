//! A merge of ordered sources into one, by a tournament tree.
//!
//! Each move of the winner costs one comparison per level of the tree. Sources are given newest
//! first; where two hold the same (key, sequence number) the newer source comes first.

use super::cursor::Cursor;
use crate::base::keys::{SeqNo, internal_cmp};
use crate::error::{Error, Result};
use crate::key_table::KeyEntry;
use std::cmp::Ordering;
use std::path::Path;

/// Whether an entry of the file at `path` comes after the `last` one; false: it is the same once
/// more. Refuses one that comes before it: checksums that are right say nothing of order, and what
/// a job made of such a file could not be searched.
pub(crate) fn follows(
    last: (&[u8], SeqNo),
    entry: &KeyEntry<'_>,
    path: Option<&Path>,
) -> Result<bool> {
    match internal_cmp(last, (entry.key, entry.seq)) {
        Ordering::Less => Ok(true),
        Ordering::Equal => Ok(false),
        Ordering::Greater => {
            let what = "its keys are out of order";
            Err(Error::corruption(path.unwrap_or(Path::new("")), 0, what))
        }
    }
}

/// A block of one of the sources that are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockAhead {
    source: usize,
    table: usize,
    block: usize,
}

/// A position in the merge of several sources.
pub(crate) struct MergingCursor {
    sources: Vec<Cursor>,
    /// `tree[0]` is the winner; `tree[1..]` are the losers of the inner nodes.
    tree: Vec<usize>,
    forward: bool,
    /// Only the winner had an entry when the tree was built, so there are no matches.
    is_alone: bool,
}

impl MergingCursor {
    /// Merges `sources`, newest first. The position is undefined until a seek.
    pub(crate) fn new(sources: Vec<Cursor>) -> MergingCursor {
        MergingCursor {
            tree: vec![0; sources.len().max(1)],
            sources,
            forward: true,
            is_alone: false,
        }
    }

    /// Moves to the first entry at or after (key, seq); then go on with [`Self::next`].
    pub(crate) fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.move_all(true, |source| source.seek(key, seq))
    }

    /// Moves to the last entry before (key, seq); then go on with [`Self::prev`].
    pub(crate) fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.move_all(false, |source| source.seek_before(key, seq))
    }

    /// The entry at the position.
    pub(crate) fn entry(&self) -> Option<KeyEntry<'_>> {
        self.sources.get(*self.tree.first()?)?.entry()
    }

    /// Memory of the positions in all sources, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.sources.iter().map(Cursor::memory_bytes).sum()
    }

    /// The file that the entry at the position is from; `None`: it is in memory.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.sources.get(*self.tree.first()?)?.path()
    }

    /// The block of keys that the position goes forward in.
    #[inline]
    pub(super) fn block_ahead(&self) -> Option<BlockAhead> {
        let source = *self.tree.first().filter(|_| self.forward)?;
        let (table, block) = self.sources.get(source)?.block()?;
        Some(BlockAhead {
            source,
            table,
            block,
        })
    }

    /// Whether all keys of that block are known to be before `end`.
    pub(super) fn block_ends_before(&self, end: &[u8]) -> bool {
        let winner = self.tree.first().and_then(|at| self.sources.get(*at));
        winner.is_some_and(|source| source.block_ends_before(end))
    }

    /// Moves forward. Only after a forward seek.
    pub(crate) fn next(&mut self) -> Result<()> {
        debug_assert!(self.forward);
        self.advance(Cursor::next)
    }

    /// Moves backward. Only after a backward seek.
    pub(crate) fn prev(&mut self) -> Result<()> {
        debug_assert!(!self.forward);
        self.advance(Cursor::prev)
    }

    /// Moves the sources that `are_hidden` over the keys from `start` to before `end`, in the
    /// direction of travel.
    pub(crate) fn skip(
        &mut self,
        (start, end): (&[u8], &[u8]),
        are_hidden: impl Fn(usize) -> bool,
    ) -> Result<()> {
        for (number, source) in self.sources.iter_mut().enumerate() {
            let is_inside = |e: KeyEntry<'_>| start <= e.key && e.key < end;
            if !are_hidden(number) || !source.entry().is_some_and(is_inside) {
                continue;
            }
            if self.forward {
                source.seek(end, SeqNo::MAX)?
            } else {
                source.seek_before(start, SeqNo::MAX)?
            }
        }
        self.build();
        Ok(())
    }

    fn advance(&mut self, go: impl FnOnce(&mut Cursor) -> Result<()>) -> Result<()> {
        let winner = self.tree[0];
        if let Some(source) = self.sources.get_mut(winner) {
            go(source)?;
            if !self.is_alone {
                self.replay(winner);
            }
        }
        Ok(())
    }

    fn move_all(
        &mut self,
        forward: bool,
        mut go: impl FnMut(&mut Cursor) -> Result<()>,
    ) -> Result<()> {
        self.forward = forward;
        self.sources.iter_mut().try_for_each(&mut go)?;
        self.build();
        Ok(())
    }

    /// Plays every match from the leaves up.
    fn build(&mut self) {
        let n = self.sources.len();
        let live = self
            .sources
            .iter()
            .filter(|source| source.entry().is_some());
        self.is_alone = live.take(2).count() < 2;
        if n < 2 {
            self.tree[0] = 0;
            return;
        }
        // winners[node] for the inner nodes 1..n; leaf i is node n + i.
        let mut winners = vec![0; 2 * n];
        for (leaf, winner) in winners[n..].iter_mut().enumerate() {
            *winner = leaf;
        }
        for node in (1..n).rev() {
            let (a, b) = (winners[2 * node], winners[2 * node + 1]);
            let (winner, loser) = if self.before(b, a) { (b, a) } else { (a, b) };
            winners[node] = winner;
            self.tree[node] = loser;
        }
        self.tree[0] = winners[1];
    }

    /// Replays the matches of one source from its leaf up, after it moved.
    fn replay(&mut self, source: usize) {
        let n = self.sources.len();
        let mut winner = source;
        let mut node = (source + n) / 2;
        while node > 0 {
            if self.before(self.tree[node], winner) {
                std::mem::swap(&mut self.tree[node], &mut winner);
            }
            node /= 2;
        }
        self.tree[0] = winner;
    }

    /// Whether source `a` comes before source `b` in the direction of travel.
    fn before(&self, a: usize, b: usize) -> bool {
        match (self.sources[a].entry(), self.sources[b].entry()) {
            (Some(x), Some(y)) => {
                let order = internal_cmp((x.key, x.seq), (y.key, y.seq));
                let order = if self.forward { order } else { order.reverse() };
                order.then(a.cmp(&b)).is_lt()
            }
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => a < b,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::base::keys::Kind;
    use crate::key_table::EntryValue;

    #[test]
    fn an_entry_that_comes_before_the_last_one_is_damage_of_its_file() {
        let path = Path::new("/db/000007.key");
        let judged = |key: &[u8], seq| {
            let entry = KeyEntry {
                key,
                seq: SeqNo(seq),
                kind: Kind::Put,
                expiry_ms: None,
                value: EntryValue::Inline(b""),
            };
            follows((b"key5", SeqNo(5)), &entry, Some(path))
        };
        for (key, seq) in [(b"key5", 4), (b"key6", 5), (b"key6", 9)] {
            assert!(judged(key, seq).unwrap());
        }
        assert!(!judged(b"key5", 5).unwrap());
        for (key, seq) in [(b"key5", 6), (b"key4", 5), (b"key4", 1)] {
            let error = judged(key, seq).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption);
            assert_eq!(error.file(), Some(path));
        }
    }
}
