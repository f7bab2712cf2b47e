//! What the caller of an iteration asks of it. No locks.

use super::Iter;
use super::end::End;
use crate::error::Result;
use crate::key_table::read_terms::ReadTerms;
use crate::options::ReadOptions;

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
        self.terms = terms.map(Box::new);
        if options.keys_only {
            self.leave_values(true);
            self.hands_out_values = false;
        }
        match options.read_ahead {
            Some(entries) => self.expecting(entries),
            None => self,
        }
    }

    /// Reads as the caller's terms say.
    #[cold]
    pub(super) fn as_asked<T>(
        &mut self,
        read: impl FnOnce(&mut Iter) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let terms = self.terms.take();
        let found = ReadTerms::within(terms.as_deref(), || read(self));
        self.terms = terms;
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
