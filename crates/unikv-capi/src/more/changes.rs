//! Following what changes, from a token on.

use super::ranges::{OnAnyDelete, OnAnyPut, OnRange};
use crate::boundary::args::{
    Alone, AloneConst, Ending, New, OptionalText, Out, Shared, callbacks, end,
};
use crate::boundary::capi;
use crate::boundary::fault::{Fault, Outcome, c_string};
use crate::boundary::handles::object;
use crate::boundary::memory::malloc_copy;
use crate::leveldb::batch::without_function;
use crate::leveldb::database::Database;
use std::ffi::{CString, c_char, c_int, c_void};
use std::time::Duration;
use unikv::{Change, ChangeKind, ChangeOp, ChangeToken, ChangesOptions, KeyspaceChange};

const UNSYNCED: c_int = 1;

/// The changes from a token on, and the one that is looked at.
pub struct Changes {
    feed: unikv::Changes,
    change: Option<Change>,
    /// That of the change, as text.
    token: CString,
}

object!(Changes, "unikv_changes_t", b"ukv:feed");

callbacks! {
    /// Gets what has happened to a keyspace.
    OnKeyspace(
        state: *mut c_void, what: c_int, number: u32, now: u32, name: *const c_char, len: usize
    ),
        "void (*)(void*, int what, uint32_t number, uint32_t now, \
         const char* name, size_t namelen)";
}

fn as_text(token: ChangeToken) -> CString {
    c_string(token.to_string().into_bytes())
}

/// The functions that get what a change has done.
struct Functions {
    state: *mut c_void,
    put: OnAnyPut,
    deleted: OnAnyDelete,
    deleted_range: OnRange,
    ingested: OnRange,
    keyspace: OnKeyspace,
}

impl Functions {
    fn show(&self, what: &ChangeKind) {
        match what {
            ChangeKind::Write(ops) => ops.iter().for_each(|op| self.operation(op)),
            ChangeKind::Ingest {
                keyspace,
                first,
                last,
            } => self.ingested.call(
                self.state,
                *keyspace,
                first.as_ptr().cast(),
                first.len(),
                last.as_ptr().cast(),
                last.len(),
            ),
            ChangeKind::Keyspace(change) => self.keyspace(change),
            _ => {}
        }
    }

    fn operation(&self, op: &ChangeOp) {
        match op {
            ChangeOp::Put {
                keyspace,
                key,
                value,
                expires_ms,
            } => self.put.call(
                self.state,
                *keyspace,
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
                expires_ms.unwrap_or(0),
            ),
            ChangeOp::Delete { keyspace, key } => {
                self.deleted
                    .call(self.state, *keyspace, key.as_ptr().cast(), key.len());
            }
            ChangeOp::DeleteRange {
                keyspace,
                start,
                end,
            } => self.deleted_range.call(
                self.state,
                *keyspace,
                start.as_ptr().cast(),
                start.len(),
                end.as_ref()
                    .map_or(std::ptr::null(), |end| end.as_ptr().cast()),
                end.as_ref().map_or(0, |end| end.len()),
            ),
            _ => {}
        }
    }

    fn keyspace(&self, change: &KeyspaceChange) {
        let (what, number, now, name) = match change {
            KeyspaceChange::Created { number, name } => (1, *number, *number, Some(name)),
            KeyspaceChange::Renamed { number, name } => (2, *number, *number, Some(name)),
            KeyspaceChange::Options { number } => (3, *number, *number, None),
            KeyspaceChange::Truncated { number, now } => (4, *number, *now, None),
            KeyspaceChange::Dropped { number } => (5, *number, *number, None),
            _ => return,
        };
        let len = name.map_or(0, String::len);
        let name = name.map_or(std::ptr::null(), |name| name.as_ptr().cast());
        self.keyspace.call(self.state, what, number, now, name, len);
    }
}

fn since(db: &Database, token: Option<&str>, flags: c_int) -> Outcome<Changes> {
    if flags & !UNSYNCED != 0 {
        return Err(Fault::misuse("there is no such flag", "use 0 or 1"));
    }
    let db = db.db()?;
    let token = match token {
        Some(text) => text.parse()?,
        None => db.change_token()?,
    };
    let options = ChangesOptions::default().include_unsynced(flags & UNSYNCED != 0);
    Ok(Changes {
        feed: db.changes_with(token, options)?,
        change: None,
        token: as_text(token),
    })
}

capi! { functions:
    /// The token of all that is visible now, as a text to be freed: what is written later comes
    /// after it. The database must keep changes (option `change_window_bytes`).
    fn unikv_token(db: Shared<Database>; errptr) -> *mut c_char {
        malloc_copy(as_text(db.db()?.change_token()?).to_bytes())?
    }

    /// The token after which all changes are kept that are kept at all, as `unikv_token`.
    fn unikv_oldest_token(db: Shared<Database>; errptr) -> *mut c_char {
        malloc_copy(as_text(db.db()?.oldest_change_token()?).to_bytes())?
    }

    /// The changes after a token, in all keyspaces, in the order of the writes; NULL stands for the
    /// token of now. Only what is durable is shown; with 1 in `flags` all that is visible. NULL on
    /// failure: `unikv_history_gone` if what comes after the token is not kept any more.
    fn unikv_changes_since(
        db: Shared<Database>, token: OptionalText, flags: c_int; errptr
    ) -> New<Changes> {
        New::of(since(db, token.map(|token| token.str()).transpose()?, flags)?)
    }

    /// Ends the handle, also after its database was closed.
    fn unikv_changes_destroy(changes: Ending<Changes>) {
        end(changes);
    }

    /// Moves to the next change, and waits for it for at most `wait_ms` milliseconds. 1 if it is
    /// there; else, and on failure, 0. A change is a whole batch, or something else that happened
    /// at once.
    fn unikv_changes_next(changes: Alone<Changes>, wait_ms: u64; errptr) -> u8 {
        let next = match wait_ms {
            0 => changes.feed.try_next()?,
            ms => changes.feed.next_timeout(Duration::from_millis(ms))?,
        };
        if let Some(change) = &next {
            changes.token = as_text(change.token);
        }
        changes.change = next;
        u8::from(changes.change.is_some())
    }

    /// The token after the newest change that was moved to: stored, it is where another process
    /// goes on. It stays until the next move.
    fn unikv_changes_token(changes: AloneConst<Changes>) -> *const c_char {
        changes.token.as_ptr()
    }

    /// The commit tag of the change, which stays until the next move; NULL if it has none.
    fn unikv_changes_commit_tag(changes: AloneConst<Changes>, taglen: Out<usize>) -> *const c_char {
        let commit_tag = changes.change.as_ref().and_then(|change| change.commit_tag.as_ref());
        taglen.set(commit_tag.map_or(0, |commit_tag| commit_tag.len()))?;
        commit_tag.map_or(std::ptr::null(), |commit_tag| commit_tag.as_ptr().cast())
    }

    /// Calls a function for each thing that the change has done, in their order, with the number of
    /// its keyspace (`unikv_keyspace_number`; 0 for the default one). `put`: the last number is the
    /// time when the value expires, in milliseconds since 1970, or 0. `deleted_range`: without an
    /// end, `limit` is NULL. `ingested`: sorted keys were ingested, and all from the first to the
    /// last one, which is named in the place of the limit, may be another; read them. `keyspace`:
    /// a keyspace was 1 made, 2 renamed, 3 given other options, 4 emptied (its number is `now` from
    /// then on) or 5 dropped; 1 and 2 have a name. The functions must not use `changes`, nor throw.
    fn unikv_changes_show(
        changes: AloneConst<Changes>, state: *mut c_void, put: Option<OnAnyPut>,
        deleted: Option<OnAnyDelete>, deleted_range: Option<OnRange>, ingested: Option<OnRange>,
        keyspace: Option<OnKeyspace>; errptr
    ) {
        let functions = Functions {
            state,
            put: put.ok_or_else(|| without_function("puts"))?,
            deleted: deleted.ok_or_else(|| without_function("deletes"))?,
            deleted_range: deleted_range.ok_or_else(|| without_function("ranges"))?,
            ingested: ingested.ok_or_else(|| without_function("ingests"))?,
            keyspace: keyspace.ok_or_else(|| without_function("keyspaces"))?,
        };
        if let Some(change) = &changes.change {
            functions.show(&change.kind);
        }
    }
}
