//! A file of the simulated disk: its bytes, and how far they are durable.

use super::over::{Moment, Over};
use crate::base::sync::Mutex;
use std::ops::Range;
use std::sync::Arc;

/// A file, whatever its name.
pub(super) struct Inode {
    pub(super) id: u64,
    pub(super) content: Mutex<Content>,
}

/// The bytes of a file in the kernel, and how far they are durable.
#[derive(Clone, Default)]
pub(super) struct Content {
    bytes: Arc<Vec<u8>>,
    pub(super) durable_len: usize,
    /// The length after each write that is not durable, and when that was.
    pub(super) writes: Vec<(usize, Moment)>,
    /// What failed syncs were to cover; no later sync makes it durable.
    pub(super) doubtful: Vec<Range<usize>>,
    /// What is durable, and what is not, of a file that has been written over. Then the three above
    /// mean nothing.
    pub(super) over: Option<Over>,
}

impl Content {
    /// Bytes that are all durable.
    pub(super) fn durable(bytes: Arc<Vec<u8>>) -> Content {
        Content {
            durable_len: bytes.len(),
            bytes,
            writes: Vec::new(),
            doubtful: Vec::new(),
            over: None,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same bytes, shared.
    pub(super) fn shared_bytes(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.bytes)
    }

    /// Writes `bytes` from `start` on, which is at most the length.
    pub(super) fn write(&mut self, start: usize, bytes: &[u8], at: Moment) {
        if bytes.is_empty() {
            return;
        }
        if start < self.bytes.len() && self.over.is_none() {
            self.over = Some(Over::begin(
                &self.bytes,
                self.durable_len,
                &self.writes,
                &self.doubtful,
            ));
        }
        let overlap = bytes.len().min(self.bytes.len() - start);
        let content = Arc::make_mut(&mut self.bytes);
        content[start..start + overlap].copy_from_slice(&bytes[..overlap]);
        content.extend_from_slice(&bytes[overlap..]);
        match &mut self.over {
            Some(over) => over.write(start, bytes, at),
            None => self.writes.push((self.bytes.len(), at)),
        }
    }

    /// The moments of the writes that are not durable.
    pub(super) fn pending(&self) -> Vec<Moment> {
        match &self.over {
            Some(over) => over.pending().collect(),
            None => self.writes.iter().map(|&(_, at)| at).collect(),
        }
    }

    pub(super) fn sync(&mut self) {
        if let Some(over) = &mut self.over {
            over.sync(Arc::clone(&self.bytes));
            return;
        }
        self.durable_len = self.bytes.len();
        self.writes.clear();
    }

    pub(super) fn fail_sync(&mut self) {
        if let Some(over) = &mut self.over {
            over.fail_sync();
            return;
        }
        // The unsynced part of an earlier doubtful range starts at the same place: replace it.
        self.doubtful.retain(|range| range.end <= self.durable_len);
        if self.durable_len < self.bytes.len() {
            self.doubtful.push(self.durable_len..self.bytes.len());
        }
    }

    pub(super) fn flip_bit(&mut self, bit: u64) -> bool {
        let Ok(at) = usize::try_from(bit / 8) else {
            return false;
        };
        if at >= self.bytes.len() {
            return false;
        }
        Arc::make_mut(&mut self.bytes)[at] ^= 1 << (bit % 8);
        if let Some(over) = &mut self.over {
            over.flip_bit(at, 1 << (bit % 8));
        }
        true
    }
}
