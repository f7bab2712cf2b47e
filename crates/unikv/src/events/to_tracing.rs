//! Events of the engine as events of the crate `tracing`.

use super::{Event, EventListener};
use tracing::{debug, error, info, warn};

/// Passes each event on to the subscriber of the crate `tracing`, with the target `unikv` and the
/// event's figures as fields. Failures are errors; a full disk, stalls and lost events are
/// warnings; beginnings and ends of jobs are for debugging. With the cargo feature `tracing`.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("unikv-tracing-{}", std::process::id()));
/// use unikv::{Db, Options, TracingListener};
///
/// let db = Db::open(&dir, Options::default().listener(TracingListener))?;
/// # db.close()?;
/// # unikv::Db::destroy(&dir)?;
/// # unikv::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct TracingListener;

/// Microseconds, as fields take no durations.
fn micros(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl EventListener for TracingListener {
    fn on_event(&self, event: &Event) {
        let name = event.name();
        match event {
            Event::Opened { recovery } => info!(
                target: "unikv",
                created = recovery.created,
                wal_ops = recovery.wal_ops,
                wal_bytes = recovery.wal_bytes,
                cut = recovery.wal_cut.is_some(),
                swept = recovery.swept.len(),
                took_us = micros(recovery.elapsed),
                "{name}"
            ),
            Event::JobBegan {
                job,
                partition,
                why,
            } => debug!(target: "unikv", job, partition, why, "{name}"),
            Event::JobEnded {
                job,
                partition,
                elapsed,
                bytes,
            } => {
                debug!(target: "unikv", job, partition, elapsed_us = micros(*elapsed), bytes, "{name}")
            }
            Event::JobFailed {
                job,
                partition,
                error,
                failures,
                retry_in,
            } => error!(
                target: "unikv",
                job,
                partition,
                %error,
                failures,
                retry_in_us = retry_in.map(micros),
                "{name}"
            ),
            Event::JobRecovered {
                job,
                partition,
                failures,
            } => info!(target: "unikv", job, partition, failures, "{name}"),
            Event::SlowdownBegan { cause } => {
                info!(target: "unikv", cause = cause.name(), "{name}")
            }
            Event::SlowdownEnded { cause, elapsed } => {
                let elapsed_us = micros(*elapsed);
                info!(target: "unikv", cause = cause.name(), elapsed_us, "{name}");
            }
            Event::StallBegan { cause } => warn!(target: "unikv", cause = cause.name(), "{name}"),
            Event::StallEnded { cause, elapsed } => {
                warn!(target: "unikv", cause = cause.name(), elapsed_us = micros(*elapsed), "{name}");
            }
            Event::DiskFull { error } => warn!(target: "unikv", %error, "{name}"),
            Event::DiskFreed { elapsed } => {
                info!(target: "unikv", elapsed_us = micros(*elapsed), "{name}");
            }
            Event::WritesSuspended {
                error,
                until_reopened,
            } => error!(target: "unikv", %error, until_reopened, "{name}"),
            Event::WritesResumed => info!(target: "unikv", "{name}"),
            Event::SlowOperation(slow) => warn!(
                target: "unikv",
                operation = slow.operation.name(),
                keyspace = slow.keyspace.as_deref(),
                key = %slow.key.escape_ascii(),
                elapsed_us = micros(slow.elapsed),
                waited = ?slow.waited,
                "{name}"
            ),
            Event::StatsNotPublished { error } => warn!(target: "unikv", %error, "{name}"),
            Event::Lost { count } => warn!(target: "unikv", count, "{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::fmt::{Debug, Write as _};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Level, Metadata, Subscriber};

    /// Keeps what it gets as lines.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<(Level, String)>>>);

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            write!(self.0, "{}={value:?} ", field.name()).unwrap();
        }
    }

    impl Subscriber for Lines {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "unikv"
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &tracing::Event<'_>) {
            let mut line = Line(String::new());
            event.record(&mut line);
            let level = *event.metadata().level();
            self.0.lock().unwrap().push((level, line.0));
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn an_event_is_passed_on_with_its_figures() {
        let lines = Lines::default();
        tracing::subscriber::with_default(lines.clone(), || {
            TracingListener.on_event(&Event::JobEnded {
                job: "merge",
                partition: Some(7),
                elapsed: Duration::from_millis(3),
                bytes: 11,
            });
            TracingListener.on_event(&Event::DiskFull {
                error: Error::closed(),
            });
        });
        let lines = lines.0.lock().unwrap().clone();
        let ended = "message=job ended job=\"merge\" partition=7 took_us=3000 bytes=11 ";
        assert_eq!(lines[0], (Level::DEBUG, ended.to_owned()));
        assert_eq!(lines[1].0, Level::WARN);
        assert!(lines[1].1.contains("error="), "{}", lines[1].1);
    }
}
