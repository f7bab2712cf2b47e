//! Keys in JSON: as hexadecimal digits.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};
use std::fmt::Write;

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair)
            .ok()
            .filter(|pair| pair.len() == 2);
        u8::from_str_radix(pair?, 16).ok()
    });
    pairs.collect()
}

pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&to_hex(bytes))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(from)?;
    from_hex(&text).ok_or_else(|| D::Error::custom("not hexadecimal"))
}

/// The same of what may be missing.
pub(super) mod option {
    use super::{Deserialize, Deserializer, Error, Serializer, from_hex, to_hex};

    pub(in crate::engine::stats) fn serialize<S: Serializer>(
        bytes: &Option<Vec<u8>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => to.serialize_some(&to_hex(bytes)),
            None => to.serialize_none(),
        }
    }

    pub(in crate::engine::stats) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        let read =
            |text: String| from_hex(&text).ok_or_else(|| D::Error::custom("not hexadecimal"));
        Option::<String>::deserialize(from)?.map(read).transpose()
    }
}
