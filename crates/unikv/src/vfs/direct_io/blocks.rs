//! Direct reads of whole blocks, into memory that begins where a block could.

use super::ring::{Part, Rings};
use super::{DirectRead, is_refusal};
use crate::vfs::BLOCK_BYTES;
use std::io::{self, ErrorKind};

/// See [`Vfs::read_direct`](crate::vfs::Vfs::read_direct).
pub(in crate::vfs) fn read_direct(
    rings: &Rings,
    reads: &mut [DirectRead<'_>],
) -> Vec<io::Result<Option<usize>>> {
    let mut parts = Vec::with_capacity(reads.len());
    let places: Vec<io::Result<Option<Place>>> = reads
        .iter_mut()
        .map(|read| {
            let Some((part, place)) = part_of(read)? else {
                return Ok(None);
            };
            parts.push(part);
            Ok(Some(place))
        })
        .collect();
    let mut done = rings.read(&mut parts).into_iter();
    let found = places.into_iter().map(|place| {
        let Some(place) = place? else {
            return Ok(None);
        };
        // There is one for each place.
        match done.next().unwrap_or(Ok(0)) {
            Ok(read) if read >= place.least => Ok(Some(place.begin)),
            Ok(_) => Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if is_refusal(&error) => Ok(None),
            Err(error) => Err(error),
        }
    });
    found.collect()
}

/// Where what is wanted stands in the blocks that are read.
struct Place {
    begin: usize,
    /// This many bytes must be read.
    least: usize,
}

fn part_of<'a>(read: &'a mut DirectRead<'_>) -> io::Result<Option<(Part<'a>, Place)>> {
    let Some(file) = read.file.direct()? else {
        return Ok(None);
    };
    let before = (read.offset % BLOCK_BYTES as u64) as usize;
    let blocks = (before + read.len).next_multiple_of(BLOCK_BYTES);
    let begin = read.buf.as_ptr().align_offset(BLOCK_BYTES);
    let memory = read.buf.get_mut(begin..begin + blocks);
    let part = Part {
        file,
        offset: read.offset - before as u64,
        memory: memory.ok_or(ErrorKind::InvalidInput)?,
    };
    let place = Place {
        begin: begin + before,
        least: before + read.len,
    };
    Ok(Some((part, place)))
}
