//! Reading more than the block that is wanted, while the cache has room.
//!
//! The device takes hardly longer for 32 KiB than for 4, and a cache that is cold fills with that
//! many fewer reads. Once something had to go from it, blocks are read one by one: what nobody has
//! asked for would drive out what somebody has.

use super::KeySection;
use crate::error::Result;
use crate::key_table::block::fences::BlockPlace;
use bytes::Bytes;

/// Blocks read together, at most, and their bytes.
const BLOCKS_PER_READ: usize = 8;
const MOST_READ_BYTES: usize = 64 << 10;

impl KeySection {
    /// The bytes of the `i`th block; its neighbours may be in the cache afterwards.
    pub(super) fn read_with_neighbours(&self, i: usize, place: BlockPlace) -> Result<Bytes> {
        let alone = || self.read(place.offset, place.len).map(Bytes::from);
        if !self.cache.has_room() {
            return alone();
        }
        let Ok(fences) = self.fences() else {
            return alone();
        };
        let first = i - i % BLOCKS_PER_READ;
        let places = (first..first + BLOCKS_PER_READ).map_while(|i| fences.place(i));
        let places: Vec<BlockPlace> = places.collect();
        let (Some(from), Some(to)) = (places.first(), places.last()) else {
            return alone();
        };
        let len = (to.offset - from.offset) as usize + to.len;
        if !places.contains(&place) || len > MOST_READ_BYTES {
            return alone();
        }
        // The error of a neighbour goes to the caller that wants it.
        let Ok(run) = self.read(from.offset, len) else {
            return alone();
        };
        let of = |place: &BlockPlace| {
            let start = (place.offset - from.offset) as usize;
            Bytes::copy_from_slice(&run[start..start + place.len])
        };
        for neighbour in places.iter().filter(|it| **it != place) {
            if let Ok(block) = self.verify(of(neighbour), *neighbour) {
                self.cache
                    .offer_block(self.file.number(), neighbour.offset, block, false);
            }
        }
        Ok(of(&place))
    }
}
