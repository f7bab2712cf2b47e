//! The options of a keyspace.

use super::MOST_INLINE_BYTES;
use crate::codec::Compression;
use crate::error::{Error, Result};
use crate::memtable::Lifetime;
use crate::version::edit::KeyspaceMeta;
use crate::version::tagged::{FieldWriter, Fields, Place};
use std::path::Path;
use std::time::Duration;

/// The tags. The numbers are in the files and never change.
mod tag {
    pub(super) const INLINE_VALUE_BYTES: u16 = 1;
    pub(super) const COMPRESSION: u16 = 2;
    pub(super) const LAST: u16 = COMPRESSION;
}

/// What holds for one keyspace alone. What is not set is as the options of the database say, or as
/// it was set before.
///
/// ```
/// # use unikv::KeyspaceOptions;
/// let counters = KeyspaceOptions::default().inline_value_bytes(1024);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyspaceOptions {
    /// See [`KeyspaceOptions::inline_value_bytes()`].
    pub inline_value_bytes: Option<u32>,
    /// See [`KeyspaceOptions::compression()`].
    pub compression: Option<Compression>,
    /// See [`KeyspaceOptions::default_ttl()`].
    pub default_ttl: Option<Duration>,
}

impl KeyspaceOptions {
    /// Values shorter than this many bytes are kept beside their keys: see
    /// [`Options::inline_value_bytes`](crate::Options::inline_value_bytes).
    #[must_use]
    pub fn inline_value_bytes(mut self, bytes: u32) -> KeyspaceOptions {
        self.inline_value_bytes = Some(bytes);
        self
    }

    /// How values and key blocks are compressed: see
    /// [`Options::compression`](crate::Options::compression). Changed for a keyspace that exists,
    /// it holds for what is written from then on.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> KeyspaceOptions {
        self.compression = Some(compression);
        self
    }

    /// How long values live that are written from now on, if the write does not say it: see
    /// [`WriteOptions::ttl`](crate::WriteOptions::ttl). Default: for ever, as with
    /// [`Duration::MAX`].
    ///
    /// ```
    /// # let db = unikv::Db::in_memory(unikv::Options::default())?;
    /// use std::time::Duration;
    /// use unikv::{KeyspaceOptions, Ttl};
    ///
    /// let day = KeyspaceOptions::default().default_ttl(Duration::from_secs(24 * 3600));
    /// let sessions = db.keyspace("sessions", day)?;
    /// sessions.put("7", "Ada")?;
    /// assert!(matches!(sessions.ttl("7")?, Some(Ttl::Remaining(_))));
    /// # unikv::Result::Ok(())
    /// ```
    #[must_use]
    pub fn default_ttl(mut self, ttl: Duration) -> KeyspaceOptions {
        self.default_ttl = Some(ttl);
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        if let Some(compression) = self.compression {
            compression.check()?;
        }
        self.default_ttl.map_or(Ok(Lifetime::Never), Lifetime::of)?;
        match self.inline_value_bytes {
            Some(bytes) if bytes > MOST_INLINE_BYTES => {
                let what = format!("`inline_value_bytes` of {bytes} is too large");
                Err(Error::invalid(
                    what,
                    format!("use at most {MOST_INLINE_BYTES}"),
                ))
            }
            _ => Ok(()),
        }
    }

    /// The default keyspace has the options of the database.
    pub(crate) fn refuse_for_default(&self) -> Result<()> {
        if *self == KeyspaceOptions::default() {
            return Ok(());
        }
        let what = "the default keyspace has the options of the database";
        Err(Error::invalid(what, "set them when you open the database"))
    }

    /// The options as they stand in the manifest at `path`.
    pub(crate) fn of(meta: &KeyspaceMeta, path: &Path) -> Result<KeyspaceOptions> {
        let options = KeyspaceOptions::decode(&meta.options, path)?;
        Ok(options.with_ttl_ms(meta.default_ttl_ms))
    }

    /// The same with a default time to live as files have it.
    pub(crate) fn with_ttl_ms(self, ms: Option<u64>) -> KeyspaceOptions {
        KeyspaceOptions {
            default_ttl: ms.map(Duration::from_millis),
            ..self
        }
    }

    /// The default time to live for the manifest, where what is not set here is as `before`.
    pub(crate) fn ttl_over(&self, before: Option<u64>) -> Option<u64> {
        match self.default_ttl.map(Lifetime::of) {
            None => before,
            Some(Ok(Lifetime::For(ms))) => Some(ms),
            Some(_) => None,
        }
    }

    /// The bytes for the manifest, where what is not set here is as in `before`.
    pub(crate) fn encode_over(&self, before: &[u8]) -> Result<Vec<u8>> {
        let before = KeyspaceOptions::decode(before, Path::new(""))?;
        let mut out = FieldWriter::default();
        if let Some(bytes) = self.inline_value_bytes.or(before.inline_value_bytes) {
            out.put_u64(tag::INLINE_VALUE_BYTES, bytes.into());
        }
        if let Some(compression) = self.compression.or(before.compression) {
            out.put_u64(tag::COMPRESSION, compression.number());
        }
        Ok(out.finish())
    }

    /// Decodes what stands in the manifest, or in the export, at `path`.
    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<KeyspaceOptions> {
        let place = Place { path, offset: 0 };
        let fields = Fields::read(bytes, "options of a keyspace", 1..=tag::LAST, place)?;
        let inline = fields.u64(tag::INLINE_VALUE_BYTES)?;
        let inline = inline.map(|bytes| bytes.min(MOST_INLINE_BYTES.into()) as u32);
        Ok(KeyspaceOptions {
            inline_value_bytes: inline,
            compression: match fields.u64(tag::COMPRESSION)? {
                Some(number) => Some(Compression::of_number(number, path)?),
                None => None,
            },
            default_ttl: None,
        })
    }
}
