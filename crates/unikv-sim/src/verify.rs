//! Checks of a database as a whole.

use crate::config::Config;
use crate::oracle::{Change, Content, Ending, Oracle, State};
use crate::runner::{DIR, env};
use crate::spaces;
use crate::times::{self, Times};
use crate::value::{Bytes, Value, show, show_option};
use std::path::Path;
use unikv::vfs::sim::{SimRuntime, SimVfs};
use unikv::{Db, ErrorKind, Iter};

/// A pair for a person.
pub fn show_pair(pair: Option<(&[u8], &[u8])>) -> String {
    pair.map_or("the end".to_owned(), |(key, value)| {
        format!("{} = {}", show(key), show(value))
    })
}

/// All pairs from front to back; asserts that they ascend.
///
/// # Errors
/// The first error of the iterator.
pub fn scan(iter: Iter) -> unikv::Result<State> {
    let mut out = State::new();
    for pair in iter {
        let (key, value) = pair?;
        let above = out
            .last_key_value()
            .is_none_or(|(last, _)| last[..] < key[..]);
        assert!(above, "a scan yields {} out of order", show(&key));
        out.insert(key.to_vec(), value[..].into());
    }
    Ok(out)
}

/// All pairs from back to front; asserts that they descend.
///
/// # Errors
/// The first error of the iterator.
pub fn scan_back(iter: Iter) -> unikv::Result<State> {
    let mut out = State::new();
    for pair in iter.rev() {
        let (key, value) = pair?;
        let below = out
            .first_key_value()
            .is_none_or(|(first, _)| key[..] < first[..]);
        assert!(below, "a backward scan yields {} out of order", show(&key));
        out.insert(key.to_vec(), value[..].into());
    }
    Ok(out)
}

/// Asserts that two contents have the same keys and values, naming the first difference.
pub fn same_pairs(what: &str, got: &State, want: &State) {
    if got == want {
        return;
    }
    for key in want.keys().chain(got.keys()) {
        let (g, w) = (got.get(key).map(|v| &v[..]), want.get(key).map(|v| &v[..]));
        let (key, g_text, w_text) = (show(key), show_option(g), show_option(w));
        assert!(g == w, "{what}: {key} is {g_text}, not {w_text}");
    }
}

/// Asserts that the offline check finds nothing wrong.
pub fn check_clean(vfs: &SimVfs) {
    let runtime = SimRuntime::new(1);
    match env(vfs, &runtime).check(DIR) {
        Ok(report) => assert!(report.is_clean(), "the check finds {:#?}", report.problems),
        Err(err) => panic!("the check failed: {err:?}"),
    }
}

/// Asserts that a closed database can be destroyed, and that nothing is left then.
pub fn destroys(vfs: &SimVfs) {
    let env = env(vfs, &SimRuntime::new(1));
    env.destroy(DIR)
        .unwrap_or_else(|err| panic!("destroying failed: {err:?}"));
    let mut left = vfs.file_names();
    left.retain(|path| path.starts_with(DIR));
    assert!(left.is_empty(), "destroying leaves {left:?}");
}

/// Opens a database that must open.
pub fn open(vfs: &SimVfs, config: &Config, seed: u64) -> (Db, std::sync::Arc<SimRuntime>) {
    open_at(vfs, config, seed, &Times::default())
}

/// The same when the wall clock is known.
pub fn open_at(
    vfs: &SimVfs,
    config: &Config,
    seed: u64,
    times: &Times,
) -> (Db, std::sync::Arc<SimRuntime>) {
    let runtime = times.runtime(seed);
    let open = |options: unikv::Options| Db::open(Path::new(DIR), options.env(env(vfs, &runtime)));
    let opened = match open(config.options()) {
        // A budget below what the hash indexes take, drawn for an opening that never was.
        Err(err) if err.kind() == ErrorKind::InvalidArgument => {
            open(config.options().memory_budget(64 << 20))
        }
        opened => opened,
    };
    match opened {
        Ok(db) => (db, runtime),
        Err(err) => panic!("recovery failed: {err:?}"),
    }
}

/// Recovers the database on `vfs` after `ending` and checks its content by the oracle: a scan
/// both ways, a `get` of every key ever written.
pub fn recovered(
    vfs: &SimVfs,
    config: &Config,
    oracle: &mut Oracle,
    ending: Ending,
) -> (Db, std::sync::Arc<SimRuntime>) {
    let (db, runtime) = open_at(vfs, config, 11, &oracle.times);
    content(&db, oracle, ending);
    (db, runtime)
}

/// Says the oracle what a recovered database holds; it must be allowed.
pub fn settle(db: &Db, oracle: &mut Oracle, found: &State, ending: Ending) {
    let content = Content {
        state: found.clone(),
        commit_tag: db.commit_tag().map(|commit_tag| commit_tag[..].into()),
    };
    let time_ms = time_of(db, oracle);
    if let Err(why) = oracle.settle(&content, time_ms, ending) {
        panic!("after {ending:?}: {why}");
    }
}

/// The time of a database, or 0 if that does not matter.
pub fn time_of(db: &Db, oracle: &Oracle) -> u64 {
    if oracle.times.matters {
        times::time_of(db)
    } else {
        0
    }
}

/// A value of the default keyspace as the oracle knows it, if it is written now.
pub fn stored(db: &Db, oracle: &Oracle, value: Value) -> Bytes {
    if !oracle.times.matters {
        return value.bytes();
    }
    let usual = db.options().default_ttl.map(times::as_ms);
    let end = times::end(times::time_of(db), value.ttl_ms.or(usual));
    value.bytes().until(end)
}

/// Checks the content of a recovered database.
pub fn content(db: &Db, oracle: &mut Oracle, ending: Ending) {
    let found = spaces::whole(db, oracle.times.matters);
    let found = found.unwrap_or_else(|err| panic!("a scan failed: {err:?}"));
    settle(db, oracle, &found, ending);
    let backward = spaces::whole_back(db).unwrap_or_else(|err| panic!("a scan failed: {err:?}"));
    same_pairs("backward scan", &backward, &found);
    for key in oracle.keys() {
        let got = spaces::get(db, key)
            .unwrap_or_else(|err| panic!("get of {} failed: {err:?}", show(key)));
        let want = found.get(key).map(|v| &v[..]);
        let (key, g_text, w_text) = (show(key), show_option(got.as_deref()), show_option(want));
        assert!(
            got.as_deref() == want,
            "get of {key}: {g_text}, but the scan has {w_text}"
        );
    }
}

/// A recovered database lives on: it takes writes, flushes and merges, closes clean and opens
/// again with everything. Returns it as it is then.
pub fn lives_on(vfs: &SimVfs, config: &Config, db: Db, oracle: &mut Oracle) -> Db {
    let must = |what: &str, result: unikv::Result<()>| {
        result.unwrap_or_else(|err| panic!("{what} after recovery failed: {err:?}"));
    };
    let known = oracle.keys().iter().filter(|key| spaces::is_own(key));
    let known: Vec<Vec<u8>> = known.take(3).cloned().collect();
    for (n, key) in known
        .into_iter()
        .chain([b"after recovery".to_vec()])
        .enumerate()
    {
        let value = stored(&db, oracle, Value::new(0xee_0000 + n as u32, 50));
        let change: Change = (key, Some(value));
        must(
            "a put",
            db.put(&change.0, change.1.as_deref().unwrap_or(b"")),
        );
        oracle.acknowledged(vec![change]);
    }
    must("a flush", db.flush());
    oracle.synced();
    must("a compaction", db.compact());
    same_pairs(
        "after recovery",
        &spaces::whole(&db, false).expect("a scan"),
        &oracle.visible(time_of(&db, oracle)),
    );
    oracle.times.saw(time_of(&db, oracle));
    must("a close", db.close().map(drop));
    oracle.synced();
    check_clean(vfs);
    // No number that it draws is one that an earlier opening has drawn.
    let (db, _runtime) = open_at(vfs, config, 12, &oracle.times);
    content(&db, oracle, Ending::Kill);
    db
}
