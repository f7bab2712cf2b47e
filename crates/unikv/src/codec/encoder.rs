//! From the raw form to the stored one, where that is worth it.
//!
//! What does not shrink is found out cheaply: of something long a piece is tried first, and after
//! some values in a row that did not shrink most of the next ones are not tried.

use super::dictionary::LONGEST_VALUE;
use super::zstd::Compressor;
use super::{Codec, Compression, Dictionary, lz4};
use std::fmt;
use std::sync::Arc;

/// Less than this cannot shrink by enough, without and with a dictionary.
const LEAST_BYTES: usize = 64;
const LEAST_WITH_DICTIONARY: usize = 24;
/// What is to be gained: this part of the raw length.
const LEAST_GAIN_PART: usize = 8;
/// Of something longer, a piece is tried first.
const LONG_BYTES: usize = 32 << 10;
const PIECE_BYTES: usize = 4 << 10;
/// After this many values in a row that did not shrink, ever more of the next are passed over.
const PATIENCE: u32 = 4;
const MOST_PASSED_OVER: u32 = 64;

/// Compresses values or blocks one after the other.
pub(crate) struct Encoder {
    dictionary: Option<Arc<Dictionary>>,
    /// By level, and whether it has the dictionary.
    contexts: Vec<((i32, bool), Compressor)>,
    out: Vec<u8>,
    /// Values in a row that did not shrink.
    failures: u32,
    /// Values that are still to be passed over.
    to_pass: u32,
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

impl Encoder {
    /// Uses `dictionary` for values that are short enough.
    pub(crate) fn new(dictionary: Option<Arc<Dictionary>>) -> Encoder {
        Encoder {
            dictionary,
            contexts: Vec::new(),
            out: Vec::new(),
            failures: 0,
            to_pass: 0,
        }
    }

    /// The dictionary that values may be compressed with.
    pub(crate) fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        self.dictionary.as_ref()
    }

    /// The codec that it would use for `raw`, if that shrinks.
    pub(crate) fn codec_for(&self, raw_len: usize, compression: Compression) -> Codec {
        match compression.codec() {
            Codec::Zstd if self.dictionary.is_some() && raw_len <= LONGEST_VALUE => {
                Codec::ZstdWithDictionary
            }
            codec => codec,
        }
    }

    /// The stored form of `raw`, with its codec. `None`: it is to be stored as it is.
    pub(crate) fn encode(
        &mut self,
        raw: &[u8],
        compression: Compression,
    ) -> Option<(Codec, &[u8])> {
        let codec = self.codec_for(raw.len(), compression);
        let least = match codec {
            Codec::None => return None,
            Codec::ZstdWithDictionary => LEAST_WITH_DICTIONARY,
            _ => LEAST_BYTES,
        };
        if raw.len() < least {
            return None;
        }
        if self.to_pass > 0 {
            self.to_pass -= 1;
            return None;
        }
        if raw.len() > LONG_BYTES {
            let middle = raw.len() / 2;
            let piece = raw.get(middle..middle + PIECE_BYTES)?;
            self.shrunk(piece, codec, compression)?;
        }
        let len = self.shrunk(raw, codec, compression)?;
        Some((codec, self.out.get(..len)?))
    }

    /// Makes the stored form of `raw` in `out` and returns its length if it is short enough. Notes
    /// whether it is.
    fn shrunk(&mut self, raw: &[u8], codec: Codec, compression: Compression) -> Option<usize> {
        let made = match (codec, compression) {
            (Codec::Lz4, _) => lz4::encode(raw, &mut self.out),
            (_, Compression::Zstd { level }) => {
                let with_dictionary = codec == Codec::ZstdWithDictionary;
                let at = self.context(level, with_dictionary)?;
                let (_, context) = self.contexts.get_mut(at)?;
                context.encode(raw, &mut self.out)
            }
            _ => None,
        };
        let made = made.filter(|len| *len <= raw.len() - raw.len() / LEAST_GAIN_PART);
        match made {
            Some(_) => self.failures = 0,
            None => {
                self.failures = self.failures.saturating_add(1);
                let beyond = self.failures.saturating_sub(PATIENCE);
                self.to_pass = (1_u32 << beyond.min(6)).min(MOST_PASSED_OVER) - 1;
            }
        }
        made
    }

    fn context(&mut self, level: i32, with_dictionary: bool) -> Option<usize> {
        let key = (level, with_dictionary);
        if let Some(at) = self.contexts.iter().position(|(known, _)| *known == key) {
            return Some(at);
        }
        let dictionary = self.dictionary.as_ref().filter(|_| with_dictionary);
        let bytes = dictionary.map_or(&[][..], |dictionary| dictionary.bytes());
        self.contexts.push((key, Compressor::new(level, bytes)?));
        Some(self.contexts.len() - 1)
    }
}
