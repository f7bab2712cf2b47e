//! From what stands in the file to raw values, and the dictionary that this may take.

use super::RecordFile;
use crate::base::seeded::seeded;
use crate::codec::{Codec, Dictionary, DictionaryPlace, LONGEST_DICTIONARY};
use crate::error::{Error, Result};
use crate::record::frame::{FrameHeader, FramePlace, Record, StoredRecord};
use bytes::Bytes;
use std::sync::Arc;

impl RecordFile {
    /// The record with its raw value.
    pub(crate) fn expanded(&self, record: StoredRecord) -> Result<Record> {
        match record.into_raw() {
            Ok(record) => Ok(record),
            Err(record) => self.expand(&record),
        }
    }

    /// The record in the frame that begins `frame`, whose header is `header`, with its raw value.
    #[inline]
    pub(in crate::record) fn verified(
        &self,
        frame: Bytes,
        header: FrameHeader,
        place: &FramePlace<'_>,
    ) -> Result<Record> {
        match header.codec {
            Codec::None => Record::verify(frame, header, place),
            _ => self.expand_frame(frame, header, place),
        }
    }

    #[cold]
    fn expand_frame(
        &self,
        frame: Bytes,
        header: FrameHeader,
        place: &FramePlace<'_>,
    ) -> Result<Record> {
        self.expand(&StoredRecord::verify(frame, header, place)?)
    }

    #[cold]
    fn expand(&self, record: &StoredRecord) -> Result<Record> {
        let place = self.place(record.offset());
        let codec = record.stored_as().codec;
        codec.require("the file has values", self.path())?;
        let dictionary = match codec {
            Codec::ZstdWithDictionary => Some(self.dictionary()?),
            _ => None,
        };
        record.expand(self.cache.decoders(), dictionary.map(|d| &**d), &place)
    }

    /// What compressed values of the file share; read the first time that it is needed.
    pub(crate) fn dictionary(&self) -> Result<&Arc<Dictionary>> {
        if let Some(dictionary) = self.dictionary.get() {
            return Ok(dictionary);
        }
        let damaged = |offset, what| Error::corruption(self.path(), offset, what);
        let place = self.meta.compression.dictionary;
        let place =
            place.ok_or_else(|| damaged(0, "a value needs a dictionary, and there is none"))?;
        let DictionaryPlace { offset, len, hash } = place;
        let end = offset.checked_add(u64::from(len));
        if len > LONGEST_DICTIONARY || end.is_none_or(|end| end > self.meta.len) {
            return Err(damaged(
                offset,
                "the dictionary of the values is not in the file",
            ));
        }
        let mut bytes = vec![0; len as usize];
        self.file.read_exact_at(&mut bytes, offset)?;
        if Dictionary::hash_of(&bytes) != hash && !seeded!(DictionaryUnchecked) {
            let what = "the dictionary of the values is not the one that they were compressed with";
            return Err(damaged(offset, what));
        }
        let dictionary = Dictionary::new(bytes);
        let dictionary =
            dictionary.ok_or_else(|| damaged(offset, "the dictionary is malformed"))?;
        Ok(self.dictionary.get_or_init(|| Arc::new(dictionary)))
    }
}
