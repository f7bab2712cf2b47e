//! The dictionary of the record files that a job copies values to.
//!
//! If most of what is copied has one already, that one goes on: its values are copied as they are.
//! Else samples of the files decide whether a known one fits, or one is learned from them, so that
//! it keeps up with what is written.

use crate::base::keys::KeyspaceId;
use crate::codec::dictionary::Samples;
use crate::codec::{Compression, Dictionaries, Dictionary};
use crate::record::RecordFile;
use std::collections::HashMap;
use std::sync::Arc;

/// A dictionary, chosen when the first value is copied.
#[derive(Default)]
pub(super) struct CopyDictionary {
    chosen: Option<Option<Arc<Dictionary>>>,
}

impl CopyDictionary {
    /// Chooses one for values of `files` that are compressed so, unless that is done.
    pub(super) fn choose<'a>(
        &mut self,
        files: impl Iterator<Item = &'a Arc<RecordFile>>,
        compression: Compression,
        keyspace: KeyspaceId,
        dictionaries: &Dictionaries,
    ) {
        if self.chosen.is_some() {
            return;
        }
        if !matches!(compression, Compression::Zstd { .. }) {
            self.chosen = Some(None);
            return;
        }
        let mut files: Vec<_> = files.collect();
        files.sort_unstable_by_key(|file| file.meta().number);
        let kept = most_common(&files, compression);
        self.chosen = Some(kept.or_else(|| dictionaries.of(samples(&files, keyspace))));
    }

    pub(super) fn get(&self) -> Option<Arc<Dictionary>> {
        self.chosen.clone().flatten()
    }
}

/// The dictionary that most bytes of `files` were compressed with, at a level that is high enough.
fn most_common(files: &[&Arc<RecordFile>], compression: Compression) -> Option<Arc<Dictionary>> {
    let mut all = 0;
    let mut bytes = HashMap::new();
    for file in files {
        let meta = file.meta();
        all += meta.records_end;
        let place = meta.compression.dictionary;
        if let Some(place) = place.filter(|_| meta.compression.level >= compression.level()) {
            let (sum, _) = bytes.entry(place.hash).or_insert((0, *file));
            *sum += meta.records_end;
        }
    }
    let (sum, file) = bytes.into_values().max_by_key(|(sum, _)| *sum)?;
    // What cannot be read is reported where it is needed.
    let dictionary = file.dictionary().ok()?;
    (sum > all / 2).then(|| Arc::clone(dictionary))
}

fn samples(files: &[&Arc<RecordFile>], keyspace: KeyspaceId) -> Samples {
    let mut samples = Samples::default();
    let share = Samples::most_bytes_of(files.len());
    for file in files {
        file.sample(keyspace, share, &mut samples);
    }
    samples
}
