//! Reading a log while its writer goes on writing it, for secondaries. Nothing is judged here: a
//! record that is not whole is not there yet, and the caller knows how far the log must lead.
//!
//! Invariants:
//! - Only writes up to the number that is asked for are fed, each once, in the order of the chain.
//! - A segment is entered only by a link that names the exact place at which the reader stands, or
//!   as the first of the chain.
//! - A segment that links to none is not entered before the edits that were durable when it began
//!   have been applied: they say that the log before it is given up.
//! - A segment that is written over while it is read has another uid: its records do not verify.
//!
//! No locks; nothing is written.

use super::Sink;
use super::segments::{self, Link};
use crate::base::file_header::FileKind;
use crate::base::keys::{FileNumber, SeqNo};
use crate::error::{Error, Result};
use crate::log::wal::{self, BadPayload, SegmentEnd, WalWrite};
use crate::log::{DurablePoint, LogReader};
use crate::vfs::file_store::FileStore;
use std::path::{Path, PathBuf};

/// How far a log has been read.
#[derive(Debug, Default)]
pub(crate) struct LogTail {
    reader: Option<LogReader>,
    path: PathBuf,
    last_seq: SeqNo,
    claimed: Option<DurablePoint>,
}

/// Why reading ended.
#[derive(PartialEq, Eq)]
enum Stop {
    /// The next write is beyond what is asked for, or this was the last one.
    Reached,
    /// There is no more here.
    End,
}

/// What is wanted of a log.
pub(crate) struct Wanted<'a> {
    pub(crate) store: &'a FileStore,
    pub(crate) low_water: FileNumber,
    /// The last write that is wanted.
    pub(crate) until: SeqNo,
    /// The edits that are known.
    pub(crate) edits: u64,
}

impl LogTail {
    /// The last write that was fed.
    pub(crate) fn last_seq(&self) -> SeqNo {
        self.last_seq
    }

    /// The greatest place below which a record that was read says that all was durable.
    pub(crate) fn claimed(&self) -> Option<DurablePoint> {
        self.claimed
    }

    /// Where reading has ended: a file, and an offset.
    pub(crate) fn place(&self) -> (&Path, u64) {
        let offset = self.reader.as_ref().map_or(0, LogReader::offset);
        (&self.path, offset)
    }

    /// Feeds what follows on what was fed, as far as it is there. After an error begin again. What
    /// a writer has published stands in the log whole, on the chain that the newest readable
    /// segment ends, unless the manifest says meanwhile that it is in tables.
    ///
    /// # Errors
    /// Those of the system. Corruption where the files contradict each other, or vanish: that is
    /// none if the manifest has more edits meanwhile.
    pub(crate) fn read_on(
        &mut self,
        wanted: &Wanted<'_>,
        segments: impl FnOnce() -> Result<Vec<FileNumber>>,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        self.reader
            .take_if(|reader| reader.number() < wanted.low_water);
        if let Some(reader) = &mut self.reader {
            reader.reload()?;
            if self.feed(wanted, None, sink)? == Stop::Reached {
                return Ok(());
            }
        }
        let present = segments::survey(wanted.store, &segments()?, wanted.low_water)?;
        let (chain, _ends_there) = segments::link(wanted.store, &present, wanted.low_water)?;
        let mut links = chain.iter();
        if let Some(reader) = &mut self.reader {
            let (number, uid) = (reader.number(), reader.uid());
            let is_it = |link: &&Link<'_>| {
                let begins = link.segment.begins();
                (link.segment.number, begins.map(|(uid, _)| uid)) == (number, Some(uid))
            };
            let Some(link) = links.find(is_it) else {
                let what = "this segment of the log is not there any more";
                return Err(Error::corruption(&self.path, 0, what));
            };
            // What came before the link was found.
            reader.reload()?;
            if self.feed(wanted, link.successor, sink)? == Stop::Reached {
                return Ok(());
            }
        }
        for link in links {
            let Some((uid, start)) = link.segment.begins() else {
                break;
            };
            // A linked segment needs no edits: one may be durable and not in force yet.
            if start.prev.is_none() && start.manifest_edits > wanted.edits {
                break;
            }
            let vfs = &*wanted.store.env().vfs;
            let (path, database) = (&link.segment.path, Some(wanted.store.database()));
            let reader = LogReader::open(vfs, path, FileKind::Wal, database)?;
            if reader.uid() != uid {
                let what = "another segment has taken the place of this one";
                return Err(Error::corruption(path, 0, what));
            }
            self.path.clone_from(path);
            self.reader = Some(reader);
            if self.feed(wanted, link.successor, sink)? == Stop::Reached {
                break;
            }
        }
        Ok(())
    }

    /// Feeds the records that follow in the segment, up to the end that its successor names.
    fn feed(
        &mut self,
        wanted: &Wanted<'_>,
        successor: Option<SegmentEnd>,
        sink: &mut Sink<'_>,
    ) -> Result<Stop> {
        let LogTail {
            reader: Some(reader),
            path,
            last_seq,
            claimed,
        } = self
        else {
            return Ok(Stop::End);
        };
        let number = reader.number();
        loop {
            if *last_seq >= wanted.until {
                return Ok(Stop::Reached);
            }
            if let Some(next) = successor.filter(|next| next.end <= reader.offset()) {
                if (next.end, next.chain) == (reader.offset(), reader.chain()) {
                    return Ok(Stop::End);
                }
                let what = "the next segment says that this one ended elsewhere or differently";
                return Err(Error::corruption(path, next.end, what));
            }
            let before = reader.position();
            *claimed = (*claimed).max(reader.greatest_point());
            let Some((kind, offset, payload)) = reader.poll()? else {
                if successor.is_some() {
                    let what = "the segment ends before the end that its successor names";
                    return Err(Error::corruption(path, reader.offset(), what));
                }
                return Ok(Stop::End);
            };
            match kind {
                wal::KIND_START | wal::KIND_POINT | wal::KIND_EDITS => {}
                wal::KIND_WRITE => {
                    let write = WalWrite::decode(payload).map_err(|bad| bad.at(path, offset))?;
                    // The outcome of its group may be unknown, or it is not published.
                    if write.last_seq() > wanted.until {
                        reader.stand_at(before);
                        return Ok(Stop::Reached);
                    }
                    sink(number, &write)?;
                    *last_seq = write.last_seq().max(*last_seq);
                }
                _ => return Err(BadPayload::of_kind(kind).at(path, offset)),
            }
        }
    }
}
