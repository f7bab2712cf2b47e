//! Writing large values to files of their own, before the batch that names them is committed.
//!
//! The files and their names are durable when a [`Staged`] batch is there. Until it is committed
//! they are in `WritePath::staged_large`: see `engine::write::blobs`.

use crate::base::keys::{EXTERNAL_LEN, FileNumber, Kind};
use crate::base::seeded::slip;
use crate::base::sync::atomic::Ordering;
use crate::codec::{Compression, Haste};
use crate::engine::write::WritePath;
use crate::error::{Error, Result};
use crate::jobs::compressions::Compressions;
use crate::key_table::RecordPointer;
use crate::memtable::{Batch, BatchOp};
use crate::record::{External, RecordFile, RecordFileMeta, RecordRef, RecordWriter, UNNUMBERED};
use crate::version::file_names;
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;

/// A file is ended at this size: a batch may have many large values.
const FILE_BYTES: u64 = 64 << 20;
/// After this many bytes the writer of large values pauses for them.
const PACED_BYTES: usize = 1 << 20;

/// A batch without its large values, which are in files.
pub(in crate::engine::write) struct Staged {
    pub(in crate::engine::write) batch: Batch,
    pub(in crate::engine::write) files: Vec<FileNumber>,
}

/// Writes large values to files, one after the other.
pub(in crate::engine::write) struct Staging<'p> {
    path: &'p WritePath,
    compressions: Compressions,
    writer: Option<RecordWriter>,
    finished: Vec<RecordFileMeta>,
    /// In the order of the values.
    pointers: Vec<RecordPointer>,
    /// The files that are to be removed unless all is well in the end.
    begun: Vec<PathBuf>,
    /// Of values for which no pause has been asked yet. Each alone may be short.
    unpaced_bytes: usize,
    no_wait: bool,
}

impl<'p> Staging<'p> {
    pub(in crate::engine::write) fn begin(
        path: &'p WritePath,
        no_wait: bool,
    ) -> Result<Staging<'p>> {
        path.core.health.check_fatal()?;
        Ok(Staging {
            path,
            compressions: path.read.compressions(),
            writer: None,
            finished: Vec::new(),
            pointers: Vec::new(),
            begun: Vec::new(),
            unpaced_bytes: 0,
            no_wait,
        })
    }

    /// Writes the large values of the operations, which are durable then.
    pub(in crate::engine::write) fn stage<'a>(
        &mut self,
        ops: impl Iterator<Item = (BatchOp<'a>, bool)> + Clone,
    ) -> Result<Staged> {
        self.check_no_wait()?;
        for (op, _) in ops.clone().filter(|(_, is_large)| *is_large) {
            self.append(&op)?;
        }
        self.make_durable()?;
        let mut batch = Batch::new();
        let mut pointers = self.pointers.iter();
        for (op, is_large) in ops {
            if !is_large {
                batch.push_op(&op);
                continue;
            }
            let external = self.external(pointers.next())?;
            batch.push_external(op.key, op.expiry_ms, &external, op.value.len());
        }
        Ok(self.hand_over(batch))
    }

    /// Writes the value of `key` that `source` gives, `len` bytes if that is known, chunk by chunk:
    /// each call fills the buffer, and only the last one not whole. It is durable then.
    pub(in crate::engine::write) fn stage_stream(
        &mut self,
        key: &[u8],
        expiry_ms: Option<u64>,
        len: Option<usize>,
        source: impl FnMut(&mut [u8]) -> Result<usize>,
    ) -> Result<Staged> {
        self.check_no_wait()?;
        let len = self.append_stream(key, expiry_ms, len, source)?;
        self.make_durable()?;
        let external = self.external(self.pointers.first())?;
        let mut batch = Batch::new();
        batch.push_external(key, expiry_ms, &external, len);
        Ok(self.hand_over(batch))
    }

    fn make_durable(&mut self) -> Result<()> {
        self.end_file()?;
        self.pace()?;
        let core = &self.path.core;
        let synced = slip!(LargeNameUnsynced, Ok(()), core.store.sync_directory());
        synced.inspect_err(|error| core.set_fatal(error))
    }

    /// What stands in the log for a value that was written.
    fn external(&self, pointer: Option<&RecordPointer>) -> Result<[u8; EXTERNAL_LEN]> {
        let external = pointer.and_then(|p| Some(External::new(*p, self.meta_of(p.file)?)));
        let external =
            external.ok_or_else(|| Error::internal("a large value was written nowhere"))?;
        Ok(external.encode())
    }

    /// Leaves the files with those whose batches are not committed.
    fn hand_over(&mut self, batch: Batch) -> Staged {
        let path = self.path;
        let mut files = Vec::new();
        for meta in self.finished.drain(..) {
            files.push(meta.number);
            let counted = &path.core.counters.large_bytes;
            counted.fetch_add(meta.len, Ordering::Relaxed);
            let file = RecordFile::open(&path.core.store, meta, &path.core.cache);
            path.staged_large.insert(Arc::new(file));
        }
        self.begun.clear();
        Staged { batch, files }
    }

    fn append(&mut self, op: &BatchOp<'_>) -> Result<()> {
        let compression = self.compression_of(op.key);
        let record = record_of(op.key, op.expiry_ms, op.value);
        let pointer = self.writer()?.append_as(&record, compression)?;
        self.pointers.push(pointer);
        self.note_bytes(op.value.len())?;
        self.end_value()
    }

    fn append_stream(
        &mut self,
        key: &[u8],
        expiry_ms: Option<u64>,
        len: Option<usize>,
        mut source: impl FnMut(&mut [u8]) -> Result<usize>,
    ) -> Result<usize> {
        let compression = self.compression_of(key);
        let record = record_of(key, expiry_ms, &[]);
        self.writer()?;
        // The writer is not with the others while it writes, so that it can pause.
        let Some(mut writer) = self.writer.take() else {
            return Err(Error::internal("a large value has no file"));
        };
        let (pointer, value_len) = writer.append_from(&record, len, compression, |out| {
            let filled = source(out)?;
            self.note_bytes(filled)?;
            Ok(filled)
        })?;
        self.pointers.push(pointer);
        self.writer = Some(writer);
        self.end_value()?;
        Ok(value_len)
    }

    /// The file that the next value goes to.
    fn writer(&mut self) -> Result<&mut RecordWriter> {
        let path = self.path;
        Ok(match &mut self.writer {
            Some(writer) => writer,
            none => {
                let number = path.core.next_file_number();
                let name = file_names::record(number);
                let writer = RecordWriter::create(&path.core.store, number, 0)?;
                self.begun.push(path.core.store.dir().join(name));
                let memtable_bytes = path.core.memory.plan.memtable_bytes;
                none.insert(writer.for_memtables_of(memtable_bytes))
            }
        })
    }

    /// The writer waits for it, and garbage collection copies values as they are.
    fn compression_of(&self, key: &[u8]) -> Compression {
        self.compressions.of(key).of_flush(Haste::None)
    }

    fn note_bytes(&mut self, bytes: usize) -> Result<()> {
        self.unpaced_bytes += bytes;
        if self.unpaced_bytes >= PACED_BYTES {
            self.pace()
        } else {
            Ok(())
        }
    }

    fn end_value(&mut self) -> Result<()> {
        let counters = &self.path.core.counters;
        counters.large_values.fetch_add(1, Ordering::Relaxed);
        let is_full = |writer: &RecordWriter| writer.len() >= FILE_BYTES;
        if self.writer.as_ref().is_some_and(is_full) {
            self.end_file()
        } else {
            Ok(())
        }
    }

    /// Takes from the writer the time that what it has written costs.
    fn pace(&mut self) -> Result<()> {
        self.check_no_wait()?;
        let bytes = std::mem::take(&mut self.unpaced_bytes);
        self.path.backpressure.pace_large(bytes);
        Ok(())
    }

    fn check_no_wait(&self) -> Result<()> {
        if self.no_wait && !self.path.backpressure.is_off() {
            Err(Error::would_block())
        } else {
            Ok(())
        }
    }

    fn end_file(&mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            self.finished.push(writer.finish(None)?.bounded());
        }
        Ok(())
    }

    fn meta_of(&self, number: FileNumber) -> Option<&RecordFileMeta> {
        self.finished.iter().find(|meta| meta.number == number)
    }
}

fn record_of<'a>(key: &'a [u8], expiry_ms: Option<u64>, value: &'a [u8]) -> RecordRef<'a> {
    RecordRef {
        key,
        seq: UNNUMBERED,
        kind: Kind::Put,
        value,
        expiry_ms,
        host_type: 0,
        older_follows: false,
    }
}

/// Also when a caller's reader panics.
impl Drop for Staging<'_> {
    fn drop(&mut self) {
        if !self.path.core.process.is_this() {
            // The files are the parent's, and a thread of it may have had the lock of the buffers.
            mem::forget((self.writer.take(), mem::take(&mut self.begun)));
            return;
        }
        if !self.begun.is_empty() {
            let begun = mem::take(&mut self.begun);
            self.path.core.store.remove_files(begun);
        }
    }
}
