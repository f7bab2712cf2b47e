//! The chunks of a file of cache hints.

use super::{Part, Walk};
use crate::base::file_header::HEADER_LEN;
use crate::key_table::{Hint, HintReader};

impl Walk<'_> {
    pub(super) fn hints(&mut self) {
        let Some(mut reader) = HintReader::open(&*self.env.vfs, self.path, None) else {
            // What is wrong with its header has been shown.
            let offset = HEADER_LEN as u64;
            let rest = self.len.saturating_sub(offset);
            self.show(&Part::new("hints", offset, rest).faulty("they cannot be read"));
            return;
        };
        loop {
            let offset = reader.at();
            let Some(hints) = reader.next() else {
                break;
            };
            let of_kind = |is: fn(&Hint) -> bool| hints.iter().filter(|hint| is(hint)).count();
            let part = Part::new("hints", offset, reader.at() - offset)
                .field("records", of_kind(|hint| matches!(hint, Hint::Record(_))))
                .field("blocks", of_kind(|hint| matches!(hint, Hint::Block { .. })))
                .field(
                    "indexes",
                    of_kind(|hint| matches!(hint, Hint::Index { .. })),
                );
            self.show(&part);
        }
        let rest = self.len.saturating_sub(reader.at());
        if rest > 0 {
            self.show(&Part::new("no hints", reader.at(), rest).faulty("the chunk is damaged"));
        }
    }
}
