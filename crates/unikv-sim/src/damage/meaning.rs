//! What a damage changes of what a specimen says: who reads it, and who else says the same.

use super::plan::{Damage, What};
use super::specimen::{
    FileFacts, FileKind, HEADER_LEN, Mark, Specimen, Touched, Twin, extension, number_of,
};
use std::ops::Range;
use std::path::Path;

/// Where the uid stands in a file header.
const UID: Range<u64> = 48..56;

/// Where the records of a file end.
fn records_end(facts: &FileFacts) -> u64 {
    let records = facts.pieces.iter().filter(|(what, _)| *what == "record");
    let ends = records.map(|(_, range)| range.end);
    ends.max().unwrap_or(HEADER_LEN)
}

impl Specimen {
    /// What reads any of the bytes that a damage changes.
    pub(super) fn touched(&self, damage: &Damage) -> Touched {
        let Some(facts) = self.files.get(&damage.path) else {
            return Touched::default();
        };
        let now = damage.bytes.as_ref();
        let now = now.filter(|now| now.len() == facts.bytes.len());
        let end = (damage.changed.end as usize).min(facts.touched.len());
        let mut all = Touched::default();
        for at in (damage.changed.start as usize).min(end)..end {
            // Between two pieces that were exchanged most is as it was.
            if now.is_none_or(|now| now[at] != facts.bytes[at]) {
                let one = facts.touched[at];
                all.get |= one.get;
                all.forward |= one.forward;
                all.backward |= one.backward;
            }
        }
        all
    }

    /// Whose log stands in the place of the own one, as far as its header says.
    pub(super) fn whose_log(&self, damage: &Damage) -> Option<&Twin> {
        let facts = self.files.get(&damage.path)?;
        let is_log = facts.kind == FileKind::Wal && damage.changed.start < HEADER_LEN;
        let foreign = is_log && matches!(damage.what, What::Foreign | What::Replaced);
        let mut twins = self.twins.iter().filter(|_| foreign);
        twins.find(|twin| damage.name.contains(twin.what))
    }

    /// Whether a durable point that is left says that bytes from `changed.start` on were durable.
    pub(super) fn is_vouched_for(&self, path: &Path, changed: &Range<u64>) -> bool {
        let number = number_of(path);
        let same_chain = |point: &&Mark| point.extension == extension(path);
        // Without the uid in its header nothing in a file can be verified; one byte of it can be
        // tried out.
        let of_uid = changed
            .end
            .min(UID.end)
            .saturating_sub(changed.start.max(UID.start));
        let left = |point: &&Mark| {
            let apart = point.record.end <= changed.start || changed.end <= point.record.start;
            point.carrier != path || (apart && of_uid < 2)
        };
        let mut marks = self.marks.iter().filter(same_chain).filter(left);
        marks.any(|point| (number, changed.start) < (point.number, point.offset))
    }

    /// Whether a segment of the log has nothing where it is damaged: the next one says that it ends
    /// before that.
    pub(super) fn is_past_end(&self, path: &Path, changed: &Range<u64>) -> bool {
        let end = self.ends.get(&number_of(path));
        extension(path) == "wal" && end.is_some_and(|end| *end <= changed.start)
    }

    /// Whether somebody says what is missing where a file is damaged.
    pub(super) fn is_missed(&self, damage: &Damage) -> bool {
        let kind = self.files.get(&damage.path).map(|facts| facts.kind);
        let is_end = matches!(damage.what, What::Cut | What::Missing | What::Replaced);
        let vouched = || self.is_vouched_for(&damage.path, &damage.changed);
        !(kind == Some(FileKind::Wal) && is_end) || vouched()
    }

    /// Whether everything that these bytes say is said elsewhere, too.
    pub(super) fn is_derived_part(&self, path: &Path, changed: &Range<u64>) -> bool {
        let Some(facts) = self.files.get(path) else {
            return false;
        };
        match facts.kind {
            FileKind::ScanRun | FileKind::Idle => true,
            FileKind::Table => {
                let dictionary = facts.pieces.iter().find(|(what, _)| *what == "dictionary");
                let is_beside =
                    |range: &Range<u64>| changed.end <= range.start || range.end <= changed.start;
                (changed.end <= HEADER_LEN || changed.start >= records_end(facts))
                    && dictionary.is_none_or(|(_, range)| is_beside(range))
            }
            _ => false,
        }
    }

    /// Whether these bytes are records as well as what else they may be: then nobody knows what
    /// keys the table has.
    pub(super) fn is_twofold(&self, path: &Path, changed: &Range<u64>) -> bool {
        let table = self.files.get(path).filter(|f| f.kind == FileKind::Table);
        let Some(facts) = table else {
            return false;
        };
        let records = facts.pieces.iter().filter(|(what, _)| *what == "record");
        let meets = |range: &Range<u64>| changed.start < range.end && range.start < changed.end;
        let in_records = records.clone().any(|(_, range)| meets(range));
        in_records && (changed.start < HEADER_LEN || changed.end > records_end(facts))
    }
}
