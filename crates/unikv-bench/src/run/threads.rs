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

/// Clients with one purpose, and a task for each.
pub(super) struct Team<'a, E> {
    pub(super) shared: &'a Shared<'a, E>,
    pub(super) gauges: &'a [Gauge],
    pub(super) tasks: Vec<Task>,
}

/// Runs the tasks, each in a thread of its own, and returns when these have ended. The team
/// `beside` is stopped when the main one has ended.
pub(super) fn run_clients<E: Engine>(
    main: Team<'_, E>,
    beside: Team<'_, E>,
    seed: u64,
    watch: &mut Watch<'_, E>,
) -> Result<(Work, Work), Failure> {
    let stops = [main.shared.stop, beside.shared.stop];
    let stop_all = || stops.map(|stop| stop.store(true, Ordering::Relaxed));
    let mut left = main.tasks.len();
    std::thread::scope(|scope| {
        let (sender, ended) = mpsc::channel();
        let mut clients = Vec::new();
        for (is_beside, team) in [(false, main), (true, beside)] {
            let shared = team.shared;
            for (task, gauge) in team.tasks.into_iter().zip(team.gauges) {
                let sender = sender.clone();
                let thread = clients.len() as u64;
                let rng = SmallRng::seed_from_u64(seed.wrapping_add(thread));
                let client = scope.spawn(move || {
                    let work = run_client(shared, gauge, task, rng);
                    if work.is_err() {
                        stop_all();
                    }
                    // The receiver lives until all threads have ended.
                    let _ = sender.send((is_beside, work));
                });
                clients.push(client);
            }
        }
        drop(sender);
        let work = collect(&ended, watch, |is_beside| {
            left -= usize::from(!is_beside);
            if left == 0 {
                stop_all();
            }
        });
        if work.is_err() {
            stop_all();
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

/// Waits for all clients, and notes each one's end: whether it worked beside, and what it did.
/// After a failure it still waits, so that the first one is reported.
fn collect<E: Engine>(
    ended: &Receiver<(bool, Result<Work, Failure>)>,
    watch: &mut Watch<'_, E>,
    mut note_end: impl FnMut(bool),
) -> Result<(Work, Work), Failure> {
    let (mut main, mut beside) = (Work::default(), Work::default());
    let mut failure = None;
    loop {
        match ended.recv_timeout(TICK) {
            Ok((is_beside, work)) => {
                note_end(is_beside);
                let sum = if is_beside { &mut beside } else { &mut main };
                match work {
                    Ok(work) => sum.add(&work),
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
            Err(RecvTimeoutError::Timeout) => watch.tick()?,
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    failure.map_or(Ok((main, beside)), Err)
}

impl Work {
    fn add(&mut self, other: &Work) {
        self.latencies.merge(&other.latencies);
        self.operations += other.operations;
        self.scanned += other.scanned;
        self.misses += other.misses;
        self.longest_write = self.longest_write.max(other.longest_write);
        self.bytes_written += other.bytes_written;
    }
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
