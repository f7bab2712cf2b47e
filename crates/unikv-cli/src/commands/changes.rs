//! `changes`: what has changed, in its order.

use crate::args::DirArg;
use crate::exit::{Code, Outcome};
use crate::output::Output;
use crate::reading::open_secondary;
use crate::text;
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::time::Duration;
use unikv::{
    Change, ChangeKind, ChangeOp, ChangeToken, ChangesOptions, ErrorKind, KeyspaceChange, Secondary,
};

/// How long to wait for the last of what is shown when the command begins.
const MOST_WAIT: Duration = Duration::from_secs(1);
/// How often the oldest token is asked for.
const MOST_TRIES: u32 = 10;

/// `changes DIR`
#[derive(Args)]
pub struct Changes {
    #[command(flatten)]
    dir: DirArg,
    /// The token after which to begin, as it was printed; by default everything that is kept
    #[arg(long, value_name = "TOKEN")]
    since: Option<ChangeToken>,
    /// Show also what a power cut could still take
    #[arg(long)]
    include_unsynced: bool,
    /// Then wait for more and print it as it comes, until interrupted
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    output: Output,
}

impl Changes {
    pub fn run(self) -> Outcome {
        let secondary = open_secondary(&self.dir)?;
        let mut names = names(&secondary);
        let mut changes = self.begin(&secondary)?;
        let shown = secondary.change_token()?.seq();
        let mut out = BufWriter::new(io::stdout().lock());
        loop {
            let next = match changes.try_next()? {
                Some(next) => Some(next),
                None => {
                    out.flush()?;
                    if self.follow {
                        Some(changes.wait_next()?)
                    } else if changes.token().seq() < shown {
                        // Not durable yet; or writers come and go, which stays unread meanwhile.
                        changes.next_timeout(MOST_WAIT)?
                    } else {
                        None
                    }
                }
            };
            let Some(change) = next else {
                break;
            };
            note_names(&mut names, &change);
            if self.output.json {
                writeln!(out, "{}", as_json(&names, &change))?;
            } else {
                print(&names, &change, &mut out)?;
            }
        }
        out.flush()?;
        Ok(Code::Success)
    }

    /// The changes after the token, or all that are kept.
    fn begin(&self, secondary: &Secondary) -> unikv::Result<unikv::Changes> {
        let options = ChangesOptions::default().include_unsynced(self.include_unsynced);
        if let Some(token) = self.since {
            return secondary.changes_with(token, options);
        }
        let mut tries = 0;
        loop {
            let begun = secondary.changes_with(secondary.oldest_change_token()?, options);
            match begun {
                // The writer has just given the oldest up.
                Err(error) if error.kind() == ErrorKind::HistoryGone && tries < MOST_TRIES => {
                    tries += 1;
                }
                begun => return begun,
            }
        }
    }
}

type Names = BTreeMap<u32, String>;

/// The names of the keyspaces that there are, by their numbers.
fn names(secondary: &Secondary) -> Names {
    let names = secondary.keyspaces().into_iter();
    let numbered = names.filter_map(|name| {
        let number = secondary.find_keyspace(&name)?.keyspace_number().ok()?;
        Some((number, name))
    });
    numbered.collect()
}

fn note_names(names: &mut Names, change: &Change) {
    let ChangeKind::Keyspace(changed) = &change.kind else {
        return;
    };
    match changed {
        KeyspaceChange::Created { number, name } | KeyspaceChange::Renamed { number, name } => {
            names.insert(*number, name.clone());
        }
        KeyspaceChange::Truncated { number, now } => {
            if let Some(name) = names.get(number).cloned() {
                names.insert(*now, name);
            }
        }
        _ => {}
    }
}

/// The name of a keyspace, or its number where it is gone.
fn name(names: &Names, number: u32) -> String {
    let gone = || format!("#{number}");
    names.get(&number).cloned().unwrap_or_else(gone)
}

fn print(names: &Names, change: &Change, out: &mut impl Write) -> io::Result<()> {
    let token = change.token;
    let mut line = |words: &[&str], keyspace: u32, fields: &[&[u8]]| {
        write!(out, "{token}")?;
        for word in words {
            write!(out, "\t{word}")?;
        }
        out.write_all(b"\t")?;
        text::write_escaped(out, name(names, keyspace).as_bytes())?;
        for field in fields {
            out.write_all(b"\t")?;
            text::write_escaped(out, field)?;
        }
        out.write_all(b"\n")
    };
    match &change.kind {
        ChangeKind::Write(ops) => {
            for op in ops {
                match op {
                    ChangeOp::Put {
                        keyspace,
                        key,
                        value,
                        ..
                    } => line(&["put"], *keyspace, &[key, value])?,
                    ChangeOp::Delete { keyspace, key } => line(&["delete"], *keyspace, &[key])?,
                    ChangeOp::DeleteRange {
                        keyspace,
                        start,
                        end: Some(end),
                    } => line(&["delete-range"], *keyspace, &[start, end])?,
                    ChangeOp::DeleteRange {
                        keyspace, start, ..
                    } => line(&["delete-range"], *keyspace, &[start])?,
                    _ => line(&["other"], 0, &[])?,
                }
            }
        }
        ChangeKind::Ingest {
            keyspace,
            first,
            last,
        } => line(&["ingest"], *keyspace, &[first, last])?,
        ChangeKind::Keyspace(changed) => {
            let (what, number) = of_keyspace(changed);
            line(&["keyspace", what], number, &[])?;
        }
        _ => line(&["other"], 0, &[])?,
    }
    match &change.commit_tag {
        Some(commit_tag) => {
            write!(out, "{token}\ttag\t")?;
            text::write_escaped(out, commit_tag)?;
            out.write_all(b"\n")
        }
        None => Ok(()),
    }
}

fn of_keyspace(changed: &KeyspaceChange) -> (&'static str, u32) {
    match changed {
        KeyspaceChange::Created { number, .. } => ("made", *number),
        KeyspaceChange::Renamed { number, .. } => ("renamed", *number),
        KeyspaceChange::Options { number } => ("options", *number),
        KeyspaceChange::Truncated { now, .. } => ("emptied", *now),
        KeyspaceChange::Dropped { number } => ("dropped", *number),
        _ => ("changed", 0),
    }
}

/// Bytes as text where they are text, else in hexadecimal.
fn bytes(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => json!({ "hex": text::to_hex(bytes) }),
    }
}

fn as_json(names: &Names, change: &Change) -> Value {
    let what = match &change.kind {
        ChangeKind::Write(ops) => json!({
            "write": ops.iter().map(|op| op_as_json(names, op)).collect::<Vec<_>>(),
        }),
        ChangeKind::Ingest {
            keyspace,
            first,
            last,
        } => json!({
            "ingest": {
                "keyspace": name(names, *keyspace),
                "first": bytes(first),
                "last": bytes(last),
            },
        }),
        ChangeKind::Keyspace(changed) => {
            let (what, number) = of_keyspace(changed);
            json!({ "keyspace": { "name": name(names, number), "number": number, "was": what } })
        }
        _ => json!({}),
    };
    let mut change_as_json = json!({
        "token": change.token.to_string(),
        "commit_tag": change.commit_tag.as_deref().map(bytes),
    });
    if let (Value::Object(all), Value::Object(what)) = (&mut change_as_json, what) {
        all.extend(what);
    }
    change_as_json
}

fn op_as_json(names: &Names, op: &ChangeOp) -> Value {
    match op {
        ChangeOp::Put {
            keyspace,
            key,
            value,
            expires_ms,
        } => json!({
            "op": "put",
            "keyspace": name(names, *keyspace),
            "key": bytes(key),
            "value": bytes(value),
            "expires_ms": expires_ms,
        }),
        ChangeOp::Delete { keyspace, key } => json!({
            "op": "delete",
            "keyspace": name(names, *keyspace),
            "key": bytes(key),
        }),
        ChangeOp::DeleteRange {
            keyspace,
            start,
            end,
        } => json!({
            "op": "delete-range",
            "keyspace": name(names, *keyspace),
            "start": bytes(start),
            "end": end.as_deref().map(bytes),
        }),
        _ => json!({ "op": "other" }),
    }
}
