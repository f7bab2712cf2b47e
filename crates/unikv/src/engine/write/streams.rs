//! Writing a value that comes as a stream.
//!
//! What is long goes to a file of its own as it comes, one chunk in memory at a time, and is then
//! committed as any large value (`engine::write::blobs`); what is short is an ordinary put. Until
//! that commit nothing refers to the file, so whatever fails before it leaves nothing.

use crate::base::bounds::with_engine_key;
use crate::base::keys::{KeyspaceId, MAX_VALUE_LEN};
use crate::engine::write::WritePath;
use crate::engine::write::blobs::staging::Staging;
use crate::engine::write::queue::Write;
use crate::error::{Error, Result};
use crate::memtable::{Lifetime, check_put};
use crate::options::WriteOptions;
use std::io::{self, Read};

/// What is shorter is in memory whole, and becomes an ordinary put.
pub(crate) const SHORT_BYTES: usize = 256 << 10;

/// The bytes that a reader gives, as many as are known to come.
pub(crate) struct Source<'r> {
    pub(crate) reader: &'r mut dyn Read,
    /// How many are still to come, if that is known.
    pub(crate) left: Option<usize>,
}

/// Gives `first`, and then what `fill` gives.
pub(crate) fn after_first<'a>(
    mut first: &'a [u8],
    mut fill: impl FnMut(&mut [u8]) -> Result<usize> + 'a,
) -> impl FnMut(&mut [u8]) -> Result<usize> + 'a {
    move |out| {
        let known = first.len().min(out.len());
        let (now, later) = first.split_at(known);
        let (to, rest) = out.split_at_mut(known);
        to.copy_from_slice(now);
        first = later;
        Ok(known + fill(rest)?)
    }
}

impl Source<'_> {
    /// Fills `out`, but for what comes after the end.
    pub(crate) fn fill(&mut self, out: &mut [u8]) -> Result<usize> {
        let wanted = self.left.map_or(out.len(), |left| left.min(out.len()));
        let mut filled = 0;
        while let Some(rest) = out.get_mut(filled..wanted).filter(|rest| !rest.is_empty()) {
            match self.reader.read(rest) {
                Ok(0) => break,
                Ok(len) => filled += len.min(rest.len()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::reader(error)),
            }
        }
        if let Some(left) = &mut self.left {
            if filled < wanted {
                let what = format!("it ended {} bytes early", *left - filled);
                let ended = io::Error::new(io::ErrorKind::UnexpectedEof, what);
                return Err(Error::reader(ended));
            }
            *left -= filled;
        }
        Ok(filled)
    }
}

impl WritePath {
    /// Commits a put, to the keyspace with this data id, of the bytes that `reader` gives: `len`,
    /// or all up to its end.
    pub(crate) fn put_reader(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        reader: &mut dyn Read,
        len: Option<u64>,
        options: WriteOptions,
    ) -> Result<()> {
        self.core.check_open()?;
        let left = len.map(|len| usize::try_from(len).unwrap_or(usize::MAX));
        check_put(key.len(), left.unwrap_or(0))?;
        let short_bytes = SHORT_BYTES.min(self.large_value_bytes());
        let mut source = Source { reader, left };
        let mut first = vec![0; left.unwrap_or(short_bytes).min(short_bytes)];
        let filled = source.fill(&mut first)?;
        let is_short = filled < short_bytes;
        first.truncate(filled);
        if is_short {
            return self.put(keyspace, key, &first, options);
        }
        let expiry_ms = if self.may_expire(options.ttl) {
            self.expiries(options.ttl)?.of(keyspace, Lifetime::AsUsual)
        } else {
            None
        };
        with_engine_key(keyspace, key, |key| {
            self.put_long(key, expiry_ms, (&first, source), left, options)
        })
    }

    fn put_long(
        &self,
        key: &[u8],
        expiry_ms: Option<u64>,
        (first, mut source): (&[u8], Source<'_>),
        len: Option<usize>,
        options: WriteOptions,
    ) -> Result<()> {
        self.space.check_space()?;
        // The next opener of the directory may give the same numbers to files.
        let _use = self.staging.begin(&self.core)?;
        let mode = self.mode(options);
        let mut value_len = 0;
        let mut bytes = after_first(first, |out| source.fill(out));
        let fill = |out: &mut [u8]| {
            let filled = bytes(out)?;
            value_len += filled;
            if value_len > MAX_VALUE_LEN {
                check_put(0, value_len).map(|()| filled)
            } else {
                self.core.check_open().map(|()| filled)
            }
        };
        let mut staging = Staging::begin(self, mode.no_wait)?;
        let staged = staging.stage_stream(key, expiry_ms, len, fill);
        let staged = staged.inspect_err(|error| self.space.note_full(error))?;
        let batch = &staged.batch;
        let written = self.commit(Write {
            batch,
            mode,
            reads: None,
        });
        if written.is_err() {
            self.unstage(&staged.files);
        }
        written
    }
}

#[cfg(test)]
mod tests;
