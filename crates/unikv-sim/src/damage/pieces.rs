//! The pieces of which a file consists.

use super::specimen::name_of;
use crate::runner::env;
use std::ops::Range;
use std::path::Path;
use unikv::inspect::Part;
use unikv::vfs::sim::{SimRuntime, SimVfs};

/// What a piece is, and where.
pub(super) type Piece = (&'static str, Range<u64>);

/// A sector of a disk, and a page of memory.
const UNITS: [(&str, usize); 2] = [("sector", 512), ("page", 4096)];

/// Everything that can be known of a file. Of one whose bytes mean nothing, nothing.
pub(super) fn parts(disk: &SimVfs, path: &Path) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    if !["LOCK", "BALLAST"].contains(&&name_of(path)[..]) {
        let env = env(disk, &SimRuntime::new(1));
        let seen = env.inspect(path, &mut |part| parts.push(part.clone()));
        seen.expect("a file of a database");
    }
    parts
}

/// The blocks, frames and sections among the parts of a file. The records of a log are of one kind,
/// whatever they say.
pub(super) fn of(parts: &[Part]) -> Vec<Piece> {
    let kind = |part: &Part| match part.what {
        "edit" | "durable point" | "write" | "segment start" => Some("log record"),
        "range delete" => Some("record"),
        what @ ("block" | "record" | "index" | "properties" | "dictionary" | "footer") => {
            Some(what)
        }
        _ => None,
    };
    let piece = |part: &Part| Some((kind(part)?, part.offset..part.offset + part.len));
    let is_there = |(_, range): &Piece| !range.is_empty();
    parts.iter().filter_map(piece).filter(is_there).collect()
}

/// The sectors and pages of a file of this many bytes.
pub(super) fn units(len: usize) -> impl Iterator<Item = Piece> {
    UNITS.into_iter().flat_map(move |(what, size)| {
        let starts = (0..len).step_by(size);
        starts.map(move |start| (what, start as u64..len.min(start + size) as u64))
    })
}
