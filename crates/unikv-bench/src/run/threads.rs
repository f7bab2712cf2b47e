//! The threads of a phase, one for each client.

use super::client::{Client, Task};
use super::shared::Shared;
use super::verify;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::measure::latency::Latencies;
use crate::measure::trace::{Gauge, TICK, Watch};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::panic::resume_unwind;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// What the clients of a phase did together.
#[derive(Default)]
pub(super) struct Work {
    pub(super) latencies: Latencies,
    pub(super) operations: u64,
    pub(super) scanned: u64,
    pub(super) misses: u64,
    pub(super) longest_write: Duration,
    pub(super) bytes_written: u64,
}

/// Runs the tasks, each in a thread of its own, and returns when these have ended.
pub(super) fn run_clients<E: Engine>(
    shared: &Shared<'_, E>,
    gauges: &[Gauge],
    tasks: Vec<Task>,
    seed: u64,
    watch: &mut Watch<'_, E>,
) -> Result<Work, Failure> {
    std::thread::scope(|scope| {
        let (sender, ended) = mpsc::channel();
        let mut clients = Vec::with_capacity(gauges.len());
        for (thread, (task, gauge)) in tasks.into_iter().zip(gauges).enumerate() {
            let sender = sender.clone();
            let rng = SmallRng::seed_from_u64(seed.wrapping_add(thread as u64));
            let client = scope.spawn(move || {
                let work = run_client(shared, gauge, task, rng);
                if work.is_err() {
                    shared.stop.store(true, Ordering::Relaxed);
                }
                // The receiver lives until all threads have ended.
                let _ = sender.send(work);
            });
            clients.push(client);
        }
        drop(sender);
        let work = collect(&ended, watch);
        if work.is_err() {
            shared.stop.store(true, Ordering::Relaxed);
        }
        // A scope waits for what its threads do, not for their end. Those of the next phase are to
        // find the memory that these have freed: glibc's allocator keeps it for one thread after
        // the other.
        for client in clients {
            client.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        watch.finish()?;
        work
    })
}

/// Waits for all clients. After a failure it still waits, so that the first one is reported.
fn collect<E: Engine>(
    ended: &Receiver<Result<Work, Failure>>,
    watch: &mut Watch<'_, E>,
) -> Result<Work, Failure> {
    let mut sum = Work::default();
    let mut failure = None;
    loop {
        match ended.recv_timeout(TICK) {
            Ok(Ok(work)) => {
                sum.latencies.merge(&work.latencies);
                sum.operations += work.operations;
                sum.scanned += work.scanned;
                sum.misses += work.misses;
                sum.longest_write = sum.longest_write.max(work.longest_write);
                sum.bytes_written += work.bytes_written;
            }
            Ok(Err(error)) => failure = failure.or(Some(error)),
            Err(RecvTimeoutError::Timeout) => watch.tick()?,
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    failure.map_or(Ok(sum), Err)
}

fn run_client<E: Engine>(
    shared: &Shared<'_, E>,
    gauge: &Gauge,
    task: Task,
    rng: SmallRng,
) -> Result<Work, Failure> {
    let mut client = Client::new(shared, gauge, rng);
    match task {
        Task::Load(records) => client.load(records)?,
        Task::GetAll(records) => client.get_all(records)?,
        Task::Delete { records, count } => client.delete_some(records, count)?,
        Task::Mix {
            mix,
            chooser,
            operations,
            pace,
        } => client.run(&mix, &chooser, operations, pace)?,
        Task::FullScan => client.scanned = verify::full_scan(shared, gauge)?,
    }
    Ok(Work {
        latencies: client.latencies,
        operations: client.operations,
        scanned: client.scanned,
        misses: client.misses,
        longest_write: client.longest_write,
        bytes_written: client.bytes_written,
    })
}
