//! The reads that all handles have in common, over one source.

use crate::base::bounds::{KeyBounds, engine_bounds, prefix_bounds};
use crate::engine::handle::Handle;
use crate::engine::read::ReadState;
use crate::engine::read::cursor::Cursor;
use crate::engine::read::iter::Iter;
use crate::engine::read::lifetimes::Ttl;
use crate::engine::read::moment::Registered;
use crate::engine::read::source::Source;
use crate::engine::read::value_reader::ValueReader;
use crate::engine::snapshots::Holder;
use crate::error::Result;
use crate::events::TimedOperation;
use crate::key_table::read_terms::ReadTerms;
use crate::options::ReadOptions;
use bytes::Bytes;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// What a handle reads from; `R` leads to it.
pub(crate) struct Reader<'a, R = &'a Arc<ReadState>> {
    pub(crate) read: R,
    pub(crate) source: Source,
    /// Holds the moment of the source, if it has one.
    pub(crate) moment: Option<&'a Arc<Registered>>,
    /// What iterators over the newest state keep open. A secondary has nothing of that kind.
    pub(crate) handle: Option<&'a Arc<Handle>>,
}

impl<R: Deref<Target = Arc<ReadState>>> Reader<'_, R> {
    /// What `options` ask of reads from now on.
    pub(crate) fn terms(&self, options: &ReadOptions) -> Option<ReadTerms> {
        self.read.terms(options)
    }

    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.read.get(self.source, key)
    }

    pub(crate) fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Bytes>>> {
        let of = || self.read.named(self.source, &[]);
        self.read.timed(TimedOperation::MultiGet, of, || {
            self.read.multi_get(self.source, keys)
        })
    }

    pub(crate) fn contains_key(&self, key: &[u8]) -> Result<bool> {
        self.read.contains(self.source, key)
    }

    pub(crate) fn value_len(&self, key: &[u8]) -> Result<Option<usize>> {
        self.read.value_len(self.source, key)
    }

    pub(crate) fn get_range(&self, key: &[u8], range: &Range<usize>) -> Result<Option<Bytes>> {
        self.read.get_range(self.source, key, range)
    }

    pub(crate) fn get_reader(&self, key: &[u8]) -> Result<Option<ValueReader>> {
        self.read.get_reader(self.source, key)
    }

    pub(crate) fn ttl(&self, key: &[u8]) -> Result<Option<Ttl>> {
        self.read.ttl(self.source, key)
    }

    pub(crate) fn range(&self, range: &impl KeyBounds) -> Iter {
        let keyspace = self.source.keyspace;
        Iter::new(self.moment(), keyspace, |data| engine_bounds(data, range))
    }

    pub(crate) fn prefix(&self, prefix: &[u8]) -> Iter {
        let keyspace = self.source.keyspace;
        Iter::new(self.moment(), keyspace, |data| prefix_bounds(data, prefix))
    }

    pub(crate) fn cursor(&self) -> Cursor {
        Cursor::new(self.moment(), self.source.keyspace)
    }

    fn moment(&self) -> Arc<Registered> {
        let now = || {
            let keeps_open = self.handle.and_then(Handle::kept_open);
            Registered::take(&self.read, Holder::Iterator, keeps_open)
        };
        self.moment.map_or_else(now, Arc::clone)
    }
}
