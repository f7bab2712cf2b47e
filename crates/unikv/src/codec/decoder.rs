//! From the stored form to the raw one.

use super::zstd::Decompressor;
use super::{Codec, Dictionary, lz4};
use crate::base::sync::Mutex;
use std::fmt;

/// Contexts that are kept for the next who needs one.
const MOST_KEPT: usize = 4;

/// What decompressing takes: contexts of Zstandard, of which each has 100 KB, used again.
#[derive(Default)]
pub(crate) struct Decoders {
    free: Mutex<Vec<Decompressor>>,
}

impl fmt::Debug for Decoders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoders").finish_non_exhaustive()
    }
}

impl Decoders {
    /// Fills `raw` with the raw form of `stored`, which has that length exactly.
    pub(crate) fn decode(
        &self,
        codec: Codec,
        stored: &[u8],
        raw: &mut [u8],
        dictionary: Option<&Dictionary>,
    ) -> Result<(), &'static str> {
        let len = match codec {
            Codec::None | Codec::Chunks => {
                return Err("what is stored as it is needs no decoding");
            }
            Codec::Lz4 => lz4::decode(stored, raw)?,
            Codec::Zstd => self.zstd(stored, raw, None)?,
            Codec::ZstdWithDictionary => {
                let dictionary = dictionary.ok_or("its dictionary is missing")?;
                self.zstd(stored, raw, Some(dictionary))?
            }
        };
        if len == raw.len() {
            Ok(())
        } else {
            Err("what is compressed has another length than it says")
        }
    }

    fn zstd(
        &self,
        stored: &[u8],
        raw: &mut [u8],
        dictionary: Option<&Dictionary>,
    ) -> Result<usize, &'static str> {
        let free = self.free.lock().pop();
        let context = free.or_else(Decompressor::new);
        let mut context = context.ok_or("there is no memory for a Zstandard context")?;
        let done = context.decode(stored, raw, dictionary.map(Dictionary::digested));
        let mut free = self.free.lock();
        if free.len() < MOST_KEPT {
            free.push(context);
        }
        done
    }

    /// Memory of the contexts that are kept.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.free
            .lock()
            .iter()
            .map(Decompressor::memory_bytes)
            .sum()
    }
}
