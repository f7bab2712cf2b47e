//! How what is written is compressed, as the keyspaces say it now.

use crate::engine::read::ReadState;
use crate::jobs::compressions::Compressions;
use crate::options::KeyspaceOptions;
use std::path::Path;
use std::sync::Arc;

impl ReadState {
    /// How the keyspaces that there are compress their values.
    pub(crate) fn compressions(&self) -> Compressions {
        let version = Arc::clone(&self.view.load().version);
        let metas = version.keyspaces.all();
        let others = metas.filter(|meta| !meta.options.is_empty());
        let others = others.filter_map(|meta| {
            let options = KeyspaceOptions::of(meta, Path::new("")).ok()?;
            Some((meta.data, options.compression?))
        });
        Compressions::new(self.core.options.compression, others)
    }
}
