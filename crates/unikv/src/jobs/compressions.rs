//! Which keyspace has its values compressed how.

use crate::base::keys::KeyspaceId;
use crate::codec::Compression;

/// How the keyspaces compress what is written from now on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Compressions {
    /// Of the default keyspace and of each that does not say otherwise.
    usual: Compression,
    /// Of those that do, by the ids before their keys.
    others: Vec<(KeyspaceId, Compression)>,
}

impl Compressions {
    /// `others` in any order.
    pub(crate) fn new(
        usual: Compression,
        others: impl Iterator<Item = (KeyspaceId, Compression)>,
    ) -> Compressions {
        let mut others: Vec<_> = others.collect();
        others.sort_unstable_by_key(|(id, _)| *id);
        Compressions { usual, others }
    }

    /// Of a key.
    #[inline]
    pub(crate) fn of(&self, key: &[u8]) -> Compression {
        if self.others.is_empty() {
            return self.usual;
        }
        let id = KeyspaceId::of(key);
        let found = self.others.binary_search_by_key(&id, |(id, _)| *id);
        let found = found.ok().and_then(|at| self.others.get(at));
        found.map_or(self.usual, |(_, compression)| *compression)
    }

    /// Whether a dictionary may be of use.
    pub(crate) fn have_zstd(&self) -> bool {
        let others = self.others.iter().map(|(_, compression)| *compression);
        let mut all = others.chain([self.usual]);
        all.any(|compression| matches!(compression, Compression::Zstd { .. }))
    }
}
