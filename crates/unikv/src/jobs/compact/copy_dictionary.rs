//! The dictionary of the record files that a job copies values to.
//!
//! If most of what is copied has one already, that one goes on: its values are copied as they are.
//! Else samples of the files decide whether a known one fits, or one is learned from them, so that
//! it keeps up with new values. A keyspace with too few values for that takes the dictionary that
//! is most frequent in the files.

use crate::base::keys::KeyspaceId;
use crate::codec::dictionary::Samples;
use crate::codec::{Compression, Dictionaries, Dictionary};
use crate::record::RecordFile;
use std::collections::HashMap;
use std::sync::Arc;

/// Chooses the dictionary for values of a keyspace that stand in `files`; `None` if they are worth
/// none.
pub(super) fn choose<'a>(
    files: impl Iterator<Item = &'a Arc<RecordFile>>,
    compression: Compression,
    keyspace: KeyspaceId,
    dictionaries: &Dictionaries,
) -> Option<Arc<Dictionary>> {
    let mut files: Vec<_> = files.collect();
    files.sort_unstable_by_key(|file| file.meta().number);
    let at_level = |file: &RecordFile| file.meta().compression.level >= compression.level();
    let kept = most_common(&files, at_level).filter(|(_, part)| *part > 0.5);
    let of_any_level = || most_common(&files, |_| true);
    let found = kept.map(|(dictionary, _)| dictionary);
    let found = found.or_else(|| dictionaries.of(samples(&files, keyspace)));
    found.or_else(|| Some(of_any_level()?.0))
}

/// The dictionary with which most bytes of such `files` were compressed, and which part of the
/// bytes of all of them that is.
fn most_common(
    files: &[&Arc<RecordFile>],
    counts: impl Fn(&RecordFile) -> bool,
) -> Option<(Arc<Dictionary>, f64)> {
    let mut all = 0;
    let mut bytes = HashMap::new();
    for file in files {
        let meta = file.meta();
        all += meta.records_end;
        let place = meta.compression.dictionary;
        if let Some(place) = place.filter(|_| counts(file)) {
            let (sum, _) = bytes.entry(place.hash).or_insert((0, *file));
            *sum += meta.records_end;
        }
    }
    let (sum, file) = bytes.into_values().max_by_key(|(sum, _)| *sum)?;
    // What cannot be read is reported where it is needed.
    let dictionary = file.dictionary().ok()?;
    Some((Arc::clone(dictionary), sum as f64 / all as f64))
}

fn samples(files: &[&Arc<RecordFile>], keyspace: KeyspaceId) -> Samples {
    let mut samples = Samples::default();
    let share = Samples::most_bytes_of(files.len());
    for file in files {
        file.sample(keyspace, share, &mut samples);
    }
    samples
}
