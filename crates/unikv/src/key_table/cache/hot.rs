//! What the cache holds, as hints for the next process.

use super::ReadCache;
use super::item::Item;
use crate::base::keys::FileNumber;
use crate::item_log::{MOST_ASKED, Place};
use crate::key_table::hints::Hint;
use crate::key_table::pointer::RecordPointer;
use std::ops::Range;

/// Hints at most: to read back more would take longer than gets take to bring it.
const MOST: usize = 1 << 20;
/// How often an item was asked for lately: each a level of hints.
const LEVELS: usize = MOST_ASKED as usize + 1;

/// The length of a record in its file by the frame that is kept of it, if it is one.
type LenOf = fn(&[u8]) -> Option<u32>;

impl ReadCache {
    /// Hints of the items, those that were asked for most often first, in portions of at most
    /// `most` hints, each ascending by file and offset. `len_of` says how long a kept frame of a
    /// record is in its file.
    pub(crate) fn hints(&self, most: usize, len_of: LenOf) -> impl Iterator<Item = Vec<Hint>> {
        let portions = portions(&self.count_hints(len_of), most);
        portions.into_iter().map(move |portion| {
            let mut hints = Vec::with_capacity(portion.hints);
            for shard in portion.shards {
                self.items.for_each(shard, |place, item, asked| {
                    // There may be more by now.
                    if level(asked) == portion.level && hints.len() < portion.hints {
                        hints.extend(hint(place, item, len_of));
                    }
                });
            }
            hints.sort_unstable_by_key(Hint::place);
            hints
        })
    }

    /// How many hints of each level each shard has.
    fn count_hints(&self, len_of: LenOf) -> Vec<[usize; LEVELS]> {
        let shards = 0..self.items.shards();
        let counts = shards.map(|shard| {
            let mut counts = [0; LEVELS];
            self.items.for_each(shard, |place, item, asked| {
                counts[level(asked)] += usize::from(hint(place, item, len_of).is_some());
            });
            counts
        });
        counts.collect()
    }
}

/// Hints that are sorted together: of one level, and of neighbours among the shards.
struct Portion {
    level: usize,
    shards: Range<usize>,
    hints: usize,
}

/// As few portions as there can be of at most `most` hints, and of [`MOST`] in all. Of a shard that
/// has more of a level, the oldest are left out.
fn portions(counts: &[[usize; LEVELS]], most: usize) -> Vec<Portion> {
    let mut portions: Vec<Portion> = Vec::new();
    let mut left = MOST;
    for level in 0..LEVELS {
        for (shard, counts) in counts.iter().enumerate().filter(|(_, c)| c[level] > 0) {
            let hints = counts[level].min(most).min(left);
            left -= hints;
            match portions.last_mut() {
                Some(last) if last.level == level && last.hints + hints <= most => {
                    last.shards.end = shard + 1;
                    last.hints += hints;
                }
                _ => portions.push(Portion {
                    level,
                    shards: shard..shard + 1,
                    hints,
                }),
            }
        }
    }
    portions
}

/// Of those asked for most often it is the first.
fn level(asked: u8) -> usize {
    usize::from(MOST_ASKED.saturating_sub(asked))
}

/// Fences are read with the first block of their table.
fn hint(place: &Place, item: &Item, len_of: LenOf) -> Option<Hint> {
    let (file, offset) = (FileNumber(place.0), place.1);
    match item {
        Item::Block(_) => Some(Hint::Block { file, offset }),
        Item::Record(frame) => Some(Hint::Record(RecordPointer {
            file,
            offset,
            len: len_of(frame)?,
        })),
        Item::Fences(_) => None,
    }
}
