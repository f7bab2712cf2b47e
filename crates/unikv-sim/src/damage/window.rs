//! The change feed of a damaged database: from each token it shows the changes that it showed
//! before, up to the last or to an error that says why there are no more.

use super::exam::explains;
use super::plan::{Damage, What};
use super::specimen::{FileFacts, FileKind, Specimen, number_of};
use crate::verify;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use unikv::{Bytes, ChangeToken, ChangesOptions, Db, Error, ErrorKind};

/// A change with its number and commit tag.
type Seen = (u64, Option<Bytes>, unikv::ChangeKind);

/// What comes after a token.
pub(super) struct Feed {
    token: ChangeToken,
    changes: Vec<Seen>,
    /// The files that it is read from.
    files: BTreeSet<PathBuf>,
}

/// What the undamaged database shows after these tokens.
pub(super) fn feeds_of(specimen: &Specimen, tokens: &[ChangeToken]) -> Vec<Feed> {
    let feeds = tokens.iter().map(|token| {
        let disk = specimen.disk.process_kill();
        let (db, _runtime) = verify::open_at(&disk, &specimen.config, 3, &specimen.oracle.times);
        let files: Arc<Mutex<BTreeSet<PathBuf>>> = Arc::default();
        let noted = Arc::clone(&files);
        disk.set_read_fault(Box::new(move |call| {
            noted.lock().unwrap().insert(call.path.to_owned());
            None
        }));
        let (changes, error) = read(&db, *token);
        assert!(error.is_none(), "the undamaged feed fails: {error:?}");
        let files = files.lock().unwrap().clone();
        Feed {
            token: *token,
            changes,
            files,
        }
    });
    feeds.collect()
}

/// All changes after a token, and why there are no more, if that is no end.
fn read(db: &Db, token: ChangeToken) -> (Vec<Seen>, Option<Error>) {
    let mut seen = Vec::new();
    let options = ChangesOptions::default().include_unsynced(true);
    let mut changes = match db.changes_with(token, options) {
        Ok(changes) => changes,
        Err(error) => return (seen, Some(error)),
    };
    loop {
        match changes.try_next() {
            Ok(Some(change)) => seen.push((change.token.seq(), change.commit_tag, change.kind)),
            Ok(None) => return (seen, None),
            Err(error) => return (seen, Some(error)),
        }
    }
}

/// Follows the changes of a damaged database that opens; how often that ends early.
/// `is_shorter`: the end of a log is lost.
pub(super) fn follow(specimen: &Specimen, damage: &Damage, db: &Db, is_shorter: bool) -> u64 {
    if specimen.whose_log(damage).is_some() && !keeps_nothing_from(specimen, damage) {
        // What it says was written, though not here.
        return 0;
    }
    let kind = specimen.files.get(&damage.path).map(|facts| facts.kind);
    let may_end = matches!(
        kind,
        Some(FileKind::Wal | FileKind::Manifest | FileKind::Records)
    );
    let is_idle = keeps_nothing_from(specimen, damage);
    let mut ended = 0;
    for feed in &specimen.feeds {
        let Feed {
            token,
            changes,
            files,
        } = feed;
        let (seen, error) = read(db, *token);
        let same = seen.iter().zip(changes).take_while(|(a, b)| a == b);
        let same = same.count();
        let (got, want) = (seen.get(same), changes.get(same));
        assert!(
            same == seen.len(),
            "after {token} comes {got:?}, not {want:?}"
        );
        let Some(error) = error else {
            assert!(
                want.is_none() || is_shorter,
                "after {token} {want:?} does not come, and nobody says so"
            );
            continue;
        };
        let is_gone = error.kind() == ErrorKind::HistoryGone;
        assert!(
            is_gone || explains(specimen, damage, &error),
            "the change feed fails and does not say why: {error:?}"
        );
        let may_end = may_end && (!is_idle || files.contains(&damage.path));
        assert!(
            may_end,
            "the changes after {token} are elsewhere: {error:?}"
        );
        ended += 1;
    }
    ended
}

/// Whether the change window alone needs a file, or nothing does, and it can be read: whatever it
/// holds, the database opens with all that it had.
pub(super) fn keeps_nothing_from(specimen: &Specimen, damage: &Damage) -> bool {
    let is_wanted = |facts: &FileFacts| facts.is_needed && facts.kind == FileKind::Wal;
    let needed = specimen.files.iter().filter(|(_, facts)| is_wanted(facts));
    let newest = needed.map(|(path, _)| number_of(path)).max();
    let is_read = !matches!(damage.what, What::Unreadable | What::Directory);
    let facts = specimen.files.get(&damage.path).filter(|_| is_read);
    facts.is_some_and(|facts| match facts.kind {
        FileKind::Wal => !facts.is_needed && Some(number_of(&damage.path)) < newest,
        FileKind::Records => !facts.is_needed,
        _ => false,
    })
}
