//! What is read of one file and prefetched of it, in order, on the simulated disk.

use crate::base::sync::Mutex;
use crate::vfs::sim::{ReadCall, SimVfs};
use std::mem;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// One call, and the bytes of the file that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Prefetched(Range<u64>),
    Read(Range<u64>),
}

/// The calls so far.
pub(crate) struct FileTrace {
    events: Arc<Mutex<Vec<Event>>>,
}

impl FileTrace {
    /// Traces the file at `path` from now on, in place of the disk's rules for reads.
    pub(crate) fn begin(disk: &SimVfs, path: &Path) -> FileTrace {
        let events = Arc::<Mutex<Vec<Event>>>::default();
        let push = |event: fn(Range<u64>) -> Event| {
            let (events, path) = (Arc::clone(&events), path.to_owned());
            move |call: &ReadCall<'_>| {
                if call.path == path {
                    let bytes = call.offset..call.offset + call.bytes as u64;
                    events.lock().push(event(bytes));
                }
            }
        };
        let (read, prefetched) = (push(Event::Read), push(Event::Prefetched));
        disk.set_read_fault(Box::new(move |call| {
            read(call);
            None
        }));
        disk.set_prefetch_rule(Box::new(prefetched));
        FileTrace { events }
    }

    /// What has happened since this was asked last.
    pub(crate) fn take(&self) -> Vec<Event> {
        mem::take(&mut *self.events.lock())
    }
}

/// The bytes that were read, call by call.
pub(crate) fn reads(events: &[Event]) -> Vec<Range<u64>> {
    let read = |event: &Event| match event {
        Event::Read(bytes) => Some(bytes.clone()),
        Event::Prefetched(_) => None,
    };
    events.iter().filter_map(read).collect()
}

/// The bytes that were prefetched, call by call.
pub(crate) fn prefetches(events: &[Event]) -> Vec<Range<u64>> {
    let prefetched = |event: &Event| match event {
        Event::Prefetched(bytes) => Some(bytes.clone()),
        Event::Read(_) => None,
    };
    events.iter().filter_map(prefetched).collect()
}

/// How many of the prefetched bytes were not read later.
pub(crate) fn prefetched_in_vain(events: &[Event]) -> u64 {
    let end = |event: &Event| match event {
        Event::Prefetched(bytes) | Event::Read(bytes) => bytes.end as usize,
    };
    let mut read_later = vec![false; events.iter().map(end).max().unwrap_or(0)];
    let mut in_vain = 0;
    for event in events.iter().rev() {
        match event {
            Event::Read(bytes) => {
                read_later[bytes.start as usize..bytes.end as usize].fill(true);
            }
            Event::Prefetched(bytes) => {
                let later = &read_later[bytes.start as usize..bytes.end as usize];
                in_vain += later.iter().filter(|later| !**later).count() as u64;
            }
        }
    }
    in_vain
}
