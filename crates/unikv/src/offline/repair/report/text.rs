//! A repair's report as text, for a person to read.

use super::{LogGap, LostKey, LostRange, RepairReport, RepairTrust, UncertainKey};
use crate::base::text::{Count, Size};
use bytes::Bytes;
use std::fmt;

/// Keys and places of each sort that are shown; the fields have more.
const MOST_SHOWN: usize = 20;

/// A line for each thing that was lost or is in doubt, and one for what was saved.
impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        for file in &self.files {
            if let Some(why) = &file.ignored {
                writeln!(f, "{}: not used: {why}", file.name)?;
            }
            for fault in file.faults.iter().take(MOST_SHOWN) {
                let (name, offset) = (&file.name, fault.offset);
                writeln!(f, "{name} at offset {offset}: {}", fault.what)?;
            }
            more(f, file.fault_count, "damaged places of this file")?;
        }
        self.fmt_losses(f)?;
        if !self.options_carried {
            writeln!(
                f,
                "The options of the database are lost; it has the defaults."
            )?;
        }
        for name in self.keyspaces.iter().take(MOST_SHOWN) {
            writeln!(f, "keyspace: {name:?}")?;
        }
        more(f, self.keyspaces.len() as u64, "keyspaces")?;
        let (records, bytes) = (Count(self.saved), Size(self.saved_bytes));
        write!(f, "{records} records, {bytes}, ")?;
        match &self.written {
            Some(to) => write!(f, "saved in {}", to.display())?,
            None => f.write_str("to be saved")?,
        }
        let (lost, in_doubt) = (Count(self.lost), Count(self.in_doubt));
        let (trust, uncertain) = (self.trust, Count(self.uncertain));
        let left = if self.uncertain_included {
            "saved, too"
        } else {
            "left out"
        };
        write!(
            f,
            ", by the {trust}: {lost} lost, {in_doubt} in doubt, {uncertain} uncertain and {left}"
        )
    }
}

impl RepairReport {
    fn fmt_losses(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for gap in &self.log.gaps {
            writeln!(f, "lost: {gap}")?;
        }
        if let Some(cut) = &self.log.cut {
            let (file, offset) = (cut.path.display(), cut.offset);
            writeln!(f, "{file} ends at offset {offset}: {}", cut.reason)?;
        }
        if self.log.batches_dropped > 0 {
            let dropped = Count(self.log.batches_dropped);
            writeln!(f, "lost: a part of each of {dropped} batches")?;
        }
        for range in self.lost_ranges.iter().take(MOST_SHOWN) {
            writeln!(f, "lost: {range}")?;
        }
        more(f, self.lost_range_count, "ranges")?;
        for lost in self.lost_keys.iter().take(MOST_SHOWN) {
            writeln!(f, "lost: {lost}")?;
        }
        more(f, self.lost, "lost keys")?;
        for uncertain in self.uncertain_keys.iter().take(MOST_SHOWN) {
            writeln!(f, "uncertain: {uncertain}")?;
        }
        more(f, self.uncertain, "uncertain keys")
    }
}

impl fmt::Display for RepairTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RepairTrust::Manifest => "manifest",
            RepairTrust::ManifestPrefix => "beginning of the manifest",
            RepairTrust::Files => "files alone",
        })
    }
}

impl fmt::Display for LogGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, offset, after) = (self.file.display(), self.offset, self.after_seq);
        let end = || "the end".to_owned();
        let before = self.before_seq.map_or_else(end, |seq| seq.to_string());
        write!(
            f,
            "batches of {file} at offset {offset}, between sequence numbers {after} and {before}: {}",
            self.what
        )
    }
}

impl fmt::Display for LostRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(n) = self.missing {
            write!(f, "{n} ")?;
        }
        let to = self.to.as_ref().map_or("the end".to_owned(), quoted);
        let (from, file) = (quoted(&self.from), self.file.display());
        let keyspace = within(&self.keyspace);
        write!(f, "records of {file} from {from} to {to}{keyspace}")
    }
}

impl fmt::Display for LostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, keyspace) = (quoted(&self.key), within(&self.keyspace));
        let (file, offset) = (self.file.display(), self.offset);
        write!(f, "{key}{keyspace}, {file} at offset {offset}")
    }
}

impl fmt::Display for UncertainKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", quoted(&self.key), within(&self.keyspace))
    }
}

fn quoted(key: &Bytes) -> String {
    format!("\"{}\"", key.escape_ascii())
}

/// Names a keyspace, unless it is the default one.
fn within(keyspace: &str) -> String {
    match keyspace {
        "default" => String::new(),
        _ => format!(" of the keyspace {keyspace:?}"),
    }
}

fn more(f: &mut fmt::Formatter<'_>, count: u64, what: &str) -> fmt::Result {
    match count.saturating_sub(MOST_SHOWN as u64) {
        0 => Ok(()),
        more => writeln!(f, "… {} more {what}", Count(more)),
    }
}
