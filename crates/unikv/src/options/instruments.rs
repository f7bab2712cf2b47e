//! The options that show what the database is doing. None of them is stored.

use super::Options;
use crate::events::{EventListener, Listener, OnProgress, OpeningProgress};
use std::sync::Arc;
use std::time::Duration;

impl Options {
    /// Who hears of [events](crate::Event): a function of `&Event`, or a type of your own. Default:
    /// nobody, and then nothing of it is done.
    ///
    /// It is called on a thread that the database starts for it, so it may take its time and call
    /// any method of the database; up to a thousand events wait meanwhile, further ones are counted
    /// and dropped. [`Db::close`](crate::Db::close) waits until all have been delivered.
    ///
    /// Not stored.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use unikv::{Db, Event, Options};
    ///
    /// # let dir = std::env::temp_dir().join(format!("unikv-listener-{}", std::process::id()));
    /// let written = Arc::new(Mutex::new(0));
    /// let heard = Arc::clone(&written);
    /// let options = Options::default().listener(move |event: &Event| match event {
    ///     Event::JobEnded { job: "flush", bytes, .. } => *heard.lock().unwrap() += bytes,
    ///     Event::StallBegan { cause, .. } => eprintln!("writers wait: {}", cause.name()),
    ///     Event::JobFailed { error, .. } => eprintln!("{error}"),
    ///     _ => {}
    /// });
    /// let db = Db::open(&dir, options)?;
    /// db.put("key", "value")?;
    /// db.flush()?;
    /// db.close()?;
    /// assert!(*written.lock().unwrap() > 0);
    /// # unikv::Db::destroy(&dir)?;
    /// # unikv::Result::Ok(())
    /// ```
    #[must_use]
    pub fn listener(mut self, listener: impl EventListener + 'static) -> Options {
        self.listener = Some(Listener(Arc::new(listener)));
        self
    }

    /// Calls a function now and then while the database is being opened, where that takes long:
    /// what the opening is doing, and how much of that is done. Default: none.
    ///
    /// It is called by the thread that opens, at most ten times a second, and not in the first
    /// tenth of a second, so not at all in a quick opening. A panic is caught, counted in
    /// [`Stats::listener_panics`](crate::Stats::listener_panics), and ends the calls.
    ///
    /// Not stored.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("unikv-progress-{}", std::process::id()));
    /// use unikv::{Db, Options};
    ///
    /// let options = Options::default().on_progress(|progress| {
    ///     eprintln!("{}: {} of {}", progress.phase.name(), progress.done, progress.all);
    /// });
    /// let db = Db::open(&dir, options)?;
    /// # db.close()?;
    /// # Db::destroy(&dir)?;
    /// # unikv::Result::Ok(())
    /// ```
    #[must_use]
    pub fn on_progress(
        mut self,
        on_progress: impl Fn(OpeningProgress) + Send + Sync + 'static,
    ) -> Options {
        self.on_progress = Some(OnProgress(Arc::new(on_progress)));
        self
    }

    /// Measures how long operations and jobs take: [`Stats::latencies`](crate::Stats::latencies).
    /// Default: false.
    ///
    /// Measured are gets, the batches that iterators read, writes, syncs and jobs. Of gets it is
    /// one in 64, of writes and of the batches one in 8, unless [`Options::slow_after`] is set,
    /// too; all others are measured each time. The histograms take up to a megabyte beside the
    /// memory budget.
    ///
    /// Not stored.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("unikv-latencies-{}", std::process::id()));
    /// # use unikv::{Db, Options};
    /// let db = Db::open(&dir, Options::default().latencies(true))?;
    /// for n in 0..1000_u32 {
    ///     db.put(n.to_be_bytes(), "value")?;
    /// }
    /// let stats = db.stats();
    /// let put = stats.latencies.iter().find(|times| times.what == "put").unwrap();
    /// assert!(put.measured > 100 && put.p50 <= put.p99);
    /// # db.close()?;
    /// # unikv::Db::destroy(&dir)?;
    /// # unikv::Result::Ok(())
    /// ```
    #[must_use]
    pub fn latencies(mut self, yes: bool) -> Options {
        self.latencies = yes;
        self
    }

    /// Has the listener hear of each [operation](crate::TimedOperation) that takes at least this
    /// long: [`Event::SlowOperation`](crate::Event::SlowOperation), with its key and what it waited
    /// for.
    /// Default: never.
    ///
    /// Each of them looks at the clock then, which takes a tenth of a microsecond.
    ///
    /// Not stored.
    #[must_use]
    pub fn slow_after(mut self, time: Duration) -> Options {
        self.slow_after = Some(time);
        self
    }

    /// How often [`Db::stats`](crate::Db::stats) are written to a file `STATS` in the directory, at
    /// least 10 ms, so that other processes can show them: `unikv stats` and `unikv top`, or
    /// [`PublishedStats::read`](crate::PublishedStats::read). Default: never.
    ///
    /// A thread of its own replaces the file, without a sync, and it is removed when the database
    /// is closed. That it cannot be written is an [event](crate::Event::StatsNotPublished), and
    /// stops nothing.
    ///
    /// Not stored.
    #[must_use]
    pub fn publish_stats(mut self, every: Duration) -> Options {
        self.publish_stats = Some(every);
        self
    }
}
