//! A merge of ordered sources into one, by a tournament tree.
//!
//! Each move of the winner costs one comparison per level of the tree. Sources are given newest
//! first; where two hold the same (key, sequence number) the newer source comes first.

use super::cursor::Cursor;
use crate::base::keys::{SeqNo, internal_cmp};
use crate::error::Result;
use crate::key_table::KeyEntry;

/// A position in the merge of several sources.
pub(crate) struct MergingCursor {
    sources: Vec<Cursor>,
    /// `tree[0]` is the winner; `tree[1..]` are the losers of the inner nodes.
    tree: Vec<usize>,
    forward: bool,
}

impl MergingCursor {
    /// Merges `sources`, newest first. The position is undefined until a seek.
    pub(crate) fn new(sources: Vec<Cursor>) -> MergingCursor {
        MergingCursor {
            tree: vec![0; sources.len().max(1)],
            sources,
            forward: true,
        }
    }

    /// Moves to the first entry at or behind (key, seq); then go on with [`Self::next`].
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

    fn advance(&mut self, go: impl FnOnce(&mut Cursor) -> Result<()>) -> Result<()> {
        let winner = self.tree[0];
        if let Some(source) = self.sources.get_mut(winner) {
            go(source)?;
            self.replay(winner);
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
