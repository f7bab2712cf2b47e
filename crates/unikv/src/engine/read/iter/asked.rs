//! What the caller of an iteration asks of it. No locks.

use super::end::End;
use super::{Iter, Toward};
use crate::error::Result;
use crate::key_table::read_terms::ReadTerms;
use crate::options::ReadOptions;
use bytes::Bytes;

/// What the caller of an iteration asks of it, where it asks for something.
pub(super) struct Asked {
    terms: Option<ReadTerms>,
    /// Values are handed out empty.
    keys_only: bool,
}

impl Iter {
    /// Says how many entries are wanted, here and after each [`Iter::seek`], so that their values
    /// are fetched at once and not in batches that grow. More may be taken, and fewer.
    #[must_use]
    pub fn expecting(mut self, entries: usize) -> Iter {
        self.expected = Some(entries);
        self.front.expect(entries);
        self.back.expect(entries);
        self
    }

    /// The same, as `options` say but for the range, which it has.
    pub(crate) fn reading(mut self, options: &ReadOptions, terms: Option<ReadTerms>) -> Iter {
        if options.keys_only {
            self.leave_values(true);
        }
        let keys_only = options.keys_only;
        if terms.is_some() || keys_only {
            self.asked = Some(Box::new(Asked { terms, keys_only }));
        }
        match options.read_ahead {
            Some(entries) => self.expecting(entries),
            None => self,
        }
    }

    /// The next entry, as the caller asks.
    #[cold]
    pub(super) fn next_as_asked(&mut self, toward: Toward) -> Option<Result<(Bytes, Bytes)>> {
        let keys_only = self.asked.as_ref().is_some_and(|asked| asked.keys_only);
        self.as_asked(|iter| match (keys_only, toward) {
            (true, _) => {
                let next = iter.next_key(toward)?;
                Some(next.map(|(key, _)| (key, Bytes::new())))
            }
            (false, Toward::Upper) => iter.next(),
            (false, Toward::Lower) => iter.next_back(),
        })
    }

    /// Reads within the caller's terms.
    #[cold]
    pub(super) fn as_asked<T>(&mut self, read: impl FnOnce(&mut Iter) -> T) -> T {
        let asked = self.asked.take();
        let terms = asked.as_ref().and_then(|asked| asked.terms.as_ref());
        let found = ReadTerms::within(terms, || read(self));
        self.asked = asked;
        found
    }

    /// From the next batch on, values are left where they are, or are not.
    pub(crate) fn leave_values(&mut self, leave: bool) {
        self.keys_alone = leave;
        self.front.leave_values(leave);
        self.back.leave_values(leave);
    }

    pub(super) fn new_end(&self) -> End {
        let mut end = End::new(self.holder.moment().read().core.cache.buffers());
        end.leave_values(self.keys_alone);
        if let Some(entries) = self.expected {
            end.expect(entries);
        }
        end
    }
}
