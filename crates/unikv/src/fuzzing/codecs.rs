//! Codecs.

use crate::codec::{Codec, Compression, Decoders, Dictionary, Encoder};
use std::sync::Arc;

/// The raw form, of this length, of what is stored with the codec of this number, with a
/// dictionary of any bytes. `None`: it has none, or there is no such codec.
pub fn decode(codec: u8, stored: &[u8], raw_len: usize, dictionary: &[u8]) -> Option<Vec<u8>> {
    let codec = Codec::of(codec)?;
    let dictionary = Dictionary::new(dictionary.to_vec())?;
    let mut raw = vec![0; raw_len.min(codec.most_raw_len(stored.len()))];
    let decoded = Decoders::default().decode(codec, stored, &mut raw, Some(&dictionary));
    decoded.is_ok().then_some(raw)
}

/// What is stored in the place of `raw`, with the number of its codec. `None`: it does not shrink.
pub fn encode(raw: &[u8], compression: Compression, dictionary: &[u8]) -> Option<(u8, Vec<u8>)> {
    let dictionary = match dictionary {
        [] => None,
        bytes => Some(Arc::new(Dictionary::new(bytes.to_vec())?)),
    };
    let mut encoder = Encoder::new(dictionary);
    let (codec, stored) = encoder.encode(raw, compression)?;
    Some((codec as u8, stored.to_vec()))
}
