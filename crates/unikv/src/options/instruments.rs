//! The options that show what the database is doing. None of them is stored.

use super::Options;
use crate::events::{EventListener, Listener};
use std::sync::Arc;

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
}
