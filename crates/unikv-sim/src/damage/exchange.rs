//! Pieces of files in the place of others: each two of one file exchanged, and each one of another
//! file put over each own one.
//!
//! Pieces are sectors, pages, blocks of keys, frames of records, records of a log, and the sections
//! after the blocks; only those of a kind meet. Where that makes more than [`MOST_SWAPS`] pairs of
//! a kind in a file, or more than [`MOST_FOREIGN`] of a kind between two files, every n-th is taken
//! instead. What stands at the same place in both files is always taken.

use super::pieces::{self, Piece};
use super::plan::{Each, File, What};
use super::specimen::{Specimen, name_of};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use unikv::vfs::sim::SimVfs;

/// Pairs of one kind that are exchanged in a file.
const MOST_SWAPS: usize = 1300;
/// Pairs of one kind between two files, beside those at the same place.
const MOST_FOREIGN: usize = 300;

/// A file from which pieces are taken.
struct Donor {
    name: String,
    bytes: Vec<u8>,
    pieces: Vec<Piece>,
}

impl Donor {
    fn of(name: String, disk: &SimVfs, path: &Path) -> Option<Donor> {
        let bytes = disk.read_file(path)?;
        let own = pieces::of(&pieces::parts(disk, path));
        Some(Donor {
            name,
            pieces: pieces::units(bytes.len()).chain(own).collect(),
            bytes,
        })
    }
}

/// Of `count` things at most about `most`: how far apart. It shares no factor with `row`, so that
/// of things in rows of that length not always the same columns are met.
fn stride(count: usize, most: usize, row: usize) -> usize {
    let shares = |n: usize| (2..=n.min(row)).any(|d| n.is_multiple_of(d) && row.is_multiple_of(d));
    let mut least = count.div_ceil(most).max(1)..;
    least.find(|n| !shares(*n)).unwrap_or(1)
}

fn of_kind<'a>(pieces: &'a [Piece], kind: &str) -> Vec<&'a Range<u64>> {
    let wanted = pieces.iter().filter(|(what, _)| *what == kind);
    wanted.map(|(_, range)| range).collect()
}

impl File<'_> {
    fn pieces(&self) -> Vec<Piece> {
        let own = self.facts.pieces.iter().cloned();
        pieces::units(self.facts.bytes.len()).chain(own).collect()
    }

    /// Exchanges each two pieces of a kind.
    pub(super) fn swap_pieces(&self, each: &mut Each<'_>) {
        let all = self.pieces();
        let kinds: BTreeSet<_> = all.iter().map(|(what, _)| *what).collect();
        for what in kinds {
            let pieces = of_kind(&all, what);
            let pairs = pieces.iter().enumerate();
            let pairs = pairs.flat_map(|(i, a)| pieces[i + 1..].iter().map(move |b| (*a, *b)));
            let count = pieces.len() * (pieces.len() - 1) / 2;
            for (a, b) in pairs.step_by(stride(count, MOST_SWAPS, pieces.len())) {
                let how = format!("swap-{what}:{}:{}", a.start, b.start);
                self.changed(What::Swap, &how, self.swapped(a, b), each);
            }
        }
    }

    /// The file with two of its pieces exchanged; what stands between them moves.
    fn swapped(&self, a: &Range<u64>, b: &Range<u64>) -> Vec<u8> {
        let piece = |start: u64, end: u64| &self.facts.bytes[start as usize..end as usize];
        let order = [
            piece(0, a.start),
            piece(b.start, b.end),
            piece(a.end, b.start),
            piece(a.start, a.end),
            piece(b.end, self.len()),
        ];
        order.concat()
    }

    /// Puts pieces of other files of the form into this one, as a write does that goes astray.
    pub(super) fn take_from_others(&self, specimen: &Specimen, each: &mut Each<'_>) {
        let like = specimen.files.iter().filter(|(path, facts)| {
            path.as_path() != self.path && facts.kind.is_like(self.facts.kind)
        });
        let like = like.filter_map(|(path, _)| Donor::of(name_of(path), &specimen.disk, path));
        let twins = specimen.twins.iter();
        let twins = twins.filter_map(|twin| Donor::of(twin.what.to_owned(), &twin.disk, self.path));
        let donors: Vec<_> = like.chain(twins).collect();
        let all = self.pieces();
        let kinds: BTreeSet<_> = all.iter().map(|(what, _)| *what).collect();
        for donor in &donors {
            for what in &kinds {
                self.take(what, &of_kind(&all, what), donor, each);
            }
        }
    }

    fn take(&self, what: &str, own: &[&Range<u64>], donor: &Donor, each: &mut Each<'_>) {
        let theirs = of_kind(&donor.pieces, what);
        let stride = stride(theirs.len() * own.len(), MOST_FOREIGN, own.len());
        let pairs = theirs
            .iter()
            .flat_map(|piece| own.iter().map(move |place| (piece, place)));
        for (i, (piece, place)) in pairs.enumerate() {
            if i % stride == 0 || piece.start == place.start {
                let mut bytes = self.facts.bytes.clone();
                let piece_bytes = &donor.bytes[piece.start as usize..piece.end as usize];
                let under = bytes[place.start as usize..].iter_mut();
                under.zip(piece_bytes).for_each(|(to, from)| *to = *from);
                let (from, at) = (&donor.name, place.start);
                let how = format!("{what}-of-{from}:{}:{at}", piece.start);
                self.changed(What::Foreign, &how, bytes, each);
            }
        }
    }
}
