//! The memory that a [`RecordStream`](crate::record::stream::RecordStream) reads into.
//!
//! Jobs read with many streams at once, and then with none for a while, in which the read cache is
//! lent what they took: by then it must be the system's again, not the allocator's. So what is
//! large is mapped. A stream uses its memory again for the next read, unless a record of the last
//! one is still held.
//!
//! Invariant: memory is written to only while nobody else can see it.

use crate::base::mapped::{LEAST_MAPPED_BYTES, Mapped};
use crate::error::Result;
use bytes::Bytes;
use std::sync::Arc;

/// Memory for one read after the other.
#[derive(Debug)]
pub(crate) struct StreamMemory {
    mapped: Option<Arc<Mapped>>,
    /// Longer memory is given back with the bytes in it.
    most_kept_bytes: usize,
}

/// A part in the memory of a stream.
struct Share(Arc<Mapped>);

impl AsRef<[u8]> for Share {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl StreamMemory {
    pub(crate) fn new(most_kept_bytes: usize) -> StreamMemory {
        StreamMemory {
            mapped: None,
            most_kept_bytes,
        }
    }

    /// `len` bytes, which `fill` fills whole.
    pub(crate) fn read(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<Bytes> {
        let kept = self.mapped.take().filter(|kept| kept.len() >= len);
        let free = kept.and_then(|kept| Arc::try_unwrap(kept).ok());
        let is_large = len >= LEAST_MAPPED_BYTES;
        let mapped = free.or_else(|| is_large.then(|| Mapped::new(len)).flatten());
        let Some(mut mapped) = mapped else {
            let mut bytes = vec![0; len];
            fill(&mut bytes)?;
            return Ok(bytes.into());
        };
        fill(&mut mapped[..len])?;
        let mapped = Arc::new(mapped);
        if mapped.len() <= self.most_kept_bytes {
            self.mapped = Some(Arc::clone(&mapped));
        }
        Ok(Bytes::from_owner(Share(mapped)).slice(..len))
    }

    /// Bytes that are kept for the next read, those of the last one included.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.mapped.as_ref().map_or(0, |mapped| mapped.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    const LEN: usize = 2 * LEAST_MAPPED_BYTES;

    fn filled(memory: &mut StreamMemory, len: usize, with: u8) -> Bytes {
        let fill = |bytes: &mut [u8]| {
            bytes.fill(with);
            Ok(())
        };
        memory.read(len, fill).unwrap()
    }

    #[test]
    fn memory_is_used_again_unless_it_is_held() {
        let mut memory = StreamMemory::new(LEN);
        let first = filled(&mut memory, LEN, 1);
        let place = first.as_ptr();
        drop(first);
        let second = filled(&mut memory, LEN - 1, 2);
        assert_eq!(second.as_ptr(), place);
        assert_eq!(second, vec![2; LEN - 1]);
        let held = second.slice(7..9);
        drop(second);
        let third = filled(&mut memory, LEN, 3);
        assert_ne!(third.as_ptr(), place);
        assert_eq!((held, third), (vec![2, 2].into(), vec![3; LEN].into()));
        assert_eq!(memory.kept_bytes(), LEN);
    }

    #[test]
    fn what_is_short_or_too_long_is_not_kept() {
        let mut memory = StreamMemory::new(LEN);
        assert_eq!(filled(&mut memory, 10, 1), vec![1; 10]);
        assert_eq!(memory.kept_bytes(), 0);
        assert_eq!(filled(&mut memory, LEN + 1, 2), vec![2; LEN + 1]);
        assert_eq!(memory.kept_bytes(), 0);
        filled(&mut memory, LEN, 3);
        let failed = memory.read(LEN, |_| Err(Error::closed()));
        assert!(failed.is_err() && memory.kept_bytes() == 0);
    }
}
