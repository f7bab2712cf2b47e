//! Which tombstone is the newest over a piece: for readers of all, and for those of older moments.
//!
//! For readers of all there is one number a piece. For others the tombstones, in the order of their
//! age, are cut into chunks of at most [`LEAF`], these are put together [`FAN_OUT`] at a time, and
//! each chunk has the newest number of each of its own pieces. A look-up searches the chunks before
//! its moment, newest first, and compares the tombstones of one leaf one by one. So memory is O(n)
//! for each layer, and three layers are enough for 32 million tombstones.

use std::ops::Range;

/// A tombstone: the numbers of its bounds.
pub(super) type Span = (u32, u32);

/// Tombstones that are compared one by one.
const LEAF: usize = 1024;
const FAN_OUT: usize = 32;
/// No tombstone.
const NONE: u32 = u32::MAX;

/// The newest tombstones over pieces.
#[derive(Clone, Debug, Default)]
pub(super) struct Layers {
    /// Of each piece the place of its newest tombstone in their order.
    newest: Vec<u32>,
    /// Tombstones in a leaf.
    leaf: usize,
    /// Of the leaves first.
    layers: Vec<Layer>,
}

/// The chunks of one length.
#[derive(Clone, Debug)]
struct Layer {
    chunk: usize,
    /// Where the pieces of each chunk end.
    ends: Vec<usize>,
    /// The bound that each piece starts at; it ends where the next one of the chunk starts.
    starts: Vec<u32>,
    newest: Vec<u32>,
}

impl Layers {
    /// Those of `spans`, oldest first, over `pieces`.
    pub(super) fn new(spans: &[Span], pieces: usize) -> Layers {
        let mut chunks = Vec::new();
        let mut chunk = spans.len();
        while chunk > LEAF {
            chunk = chunk.div_ceil(FAN_OUT);
            chunks.push(());
        }
        let leaf = chunk.max(1);
        let mut layers = Vec::with_capacity(chunks.len());
        for _ in chunks {
            layers.push(Layer::new(spans, chunk));
            chunk *= FAN_OUT;
        }
        Layers {
            newest: paint(spans, 0, pieces),
            leaf,
            layers,
        }
    }

    /// The newest of all over `piece`.
    #[inline]
    pub(super) fn newest(&self, piece: usize) -> Option<usize> {
        place(self.newest.get(piece))
    }

    /// The newest over `piece` of the first `count` of `spans`, of which these are the layers.
    pub(super) fn newest_of(&self, spans: &[Span], count: usize, piece: usize) -> Option<usize> {
        let mut upto = count;
        let from = upto - upto % self.leaf;
        let covers = |(start, end): &Span| (*start as usize..*end as usize).contains(&piece);
        if let Some(at) = spans.get(from..upto)?.iter().rposition(covers) {
            return Some(from + at);
        }
        upto = from;
        for (number, layer) in self.layers.iter().enumerate() {
            let coarser = self.layers.get(number + 1);
            let from = coarser.map_or(0, |coarser| upto - upto % coarser.chunk);
            while upto > from {
                upto -= layer.chunk;
                if let Some(found) = layer.newest(upto / layer.chunk, piece) {
                    return Some(found);
                }
            }
        }
        None
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let layers = self.layers.iter().map(|layer| {
            layer.ends.capacity() * size_of::<usize>()
                + (layer.starts.capacity() + layer.newest.capacity()) * size_of::<u32>()
        });
        self.newest.capacity() * size_of::<u32>()
            + self.layers.capacity() * size_of::<Layer>()
            + layers.sum::<usize>()
    }
}

impl Layer {
    fn new(spans: &[Span], chunk: usize) -> Layer {
        let mut layer = Layer {
            chunk,
            ends: Vec::with_capacity(spans.len().div_ceil(chunk)),
            starts: Vec::with_capacity(2 * spans.len()),
            newest: Vec::with_capacity(2 * spans.len()),
        };
        let (mut bounds, mut local) = (Vec::new(), Vec::new());
        for (number, spans) in spans.chunks(chunk).enumerate() {
            bounds.clear();
            bounds.extend(spans.iter().flat_map(|(start, end)| [*start, *end]));
            bounds.sort_unstable();
            bounds.dedup();
            let number_of = |bound: u32| bounds.partition_point(|other| *other < bound) as u32;
            local.clear();
            let spans = spans.iter();
            local.extend(spans.map(|(start, end)| (number_of(*start), number_of(*end))));
            // After the last bound nothing is covered.
            layer
                .newest
                .extend(paint(&local, number * chunk, bounds.len()));
            layer.starts.extend_from_slice(&bounds);
            layer.ends.push(layer.starts.len());
        }
        layer.starts.shrink_to_fit();
        layer.newest.shrink_to_fit();
        layer
    }

    fn newest(&self, chunk: usize, piece: usize) -> Option<usize> {
        let pieces = self.pieces_of(chunk);
        let starts = self.starts.get(pieces.clone())?;
        let upto = starts.partition_point(|start| *start as usize <= piece);
        place(self.newest.get(pieces.start + upto.checked_sub(1)?))
    }

    fn pieces_of(&self, chunk: usize) -> Range<usize> {
        let end = |chunk: usize| self.ends.get(chunk).copied().unwrap_or(0);
        chunk.checked_sub(1).map_or(0, end)..end(chunk)
    }
}

fn place(newest: Option<&u32>) -> Option<usize> {
    newest.filter(|at| **at != NONE).map(|at| *at as usize)
}

/// The place of the newest of `spans`, oldest first, over each of `pieces`; `first` is that of the
/// first of them. Each piece is painted once: the newest span comes first, and passes over what is
/// painted already.
fn paint(spans: &[Span], first: usize, pieces: usize) -> Vec<u32> {
    let mut newest = vec![NONE; pieces];
    // From each piece to one at or after it, from which on none before the next has been painted.
    let mut next: Vec<u32> = (0..=pieces as u32).collect();
    for (at, (start, end)) in spans.iter().enumerate().rev() {
        let mut piece = unpainted(&mut next, *start);
        while piece < *end {
            newest[piece as usize] = (first + at) as u32;
            next[piece as usize] = piece + 1;
            piece = unpainted(&mut next, piece + 1);
        }
    }
    newest
}

/// The first piece at or after `piece` that has not been painted.
fn unpainted(next: &mut [u32], mut piece: u32) -> u32 {
    loop {
        let after = next[piece as usize];
        if after == piece {
            return piece;
        }
        // Halves the way for the next search.
        let further = next[after as usize];
        next[piece as usize] = further;
        piece = further;
    }
}
