//! How the values or blocks of one file are compressed: what the manifest and the file itself say
//! of it.

use super::{Codec, Codecs};

/// How the values of a record file are stored, or the blocks of a key table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileCompression {
    /// The codecs that occur.
    pub(crate) codecs: Codecs,
    /// The least level of the values with Zstandard, 0 without: whoever wants more compresses them
    /// again.
    pub(crate) level: i8,
    /// Bytes that compression has saved.
    pub(crate) saved_bytes: u64,
    pub(crate) dictionary: Option<DictionaryPlace>,
}

/// The dictionary of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DictionaryPlace {
    pub(crate) offset: u64,
    pub(crate) len: u32,
    /// Of its bytes: [`Dictionary::hash`](super::Dictionary::hash).
    pub(crate) hash: u64,
}

/// Dictionaries are never longer, whoever made them: read before anything else is known of them.
pub(crate) const LONGEST_DICTIONARY: u32 = 1 << 20;

impl FileCompression {
    /// Counts a value or a block.
    pub(crate) fn note(&mut self, codec: Codec, level: i8, raw_len: usize, stored_len: usize) {
        if matches!(codec, Codec::Zstd | Codec::ZstdWithDictionary) {
            let has_some =
                self.codecs.holds(Codec::Zstd) || self.codecs.holds(Codec::ZstdWithDictionary);
            self.level = if has_some {
                level.min(self.level)
            } else {
                level
            };
        }
        self.codecs.add(codec);
        self.saved_bytes += raw_len.saturating_sub(stored_len) as u64;
    }

    /// Memory of the dictionary once it is in use: its bytes twice, and the tables made of it.
    pub(crate) fn memory_bytes(&self) -> usize {
        const TABLES_BYTES: usize = 28 << 10;
        let dictionary = self.dictionary.as_ref();
        dictionary.map_or(0, |place| 2 * place.len as usize + TABLES_BYTES)
    }
}
