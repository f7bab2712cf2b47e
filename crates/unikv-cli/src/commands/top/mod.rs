//! `top`: what a database is doing that another process has open, as that process publishes it.
//!
//! Nothing of the database is opened: the file `STATS` is read. A frame is lines of text with
//! styles ([`frame`]); here is where they come from and where they go.

mod frame;
mod map;

use crate::args::{DirArg, duration};
use crate::exit::{Code, Failure, Outcome};
use crate::output::Output;
use clap::Args;
use frame::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::text::{Line, Text};
use ratatui::widgets::Paragraph;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use unikv::PublishedStats;

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The size of a frame that no terminal asks for.
const COLUMNS: u16 = 80;
const ROWS: u16 = 24;

/// `top DIR`
#[derive(Args)]
pub struct Top {
    #[command(flatten)]
    dir: DirArg,
    /// Print one frame of 80 columns as text, and end
    #[arg(long, conflicts_with = "json")]
    once: bool,
    /// With --once: how long to wait for a second look, from which rates are taken
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "3s")]
    wait: Duration,
    #[command(flatten)]
    output: Output,
}

impl Top {
    pub fn run(self) -> Outcome {
        if self.once {
            return self.print_once();
        }
        if self.output.json {
            let published = self.read()?;
            let as_json = || super::stats::published_to_json(&published);
            self.output.print_json(as_json)?;
            return Ok(Code::Success);
        }
        if !io::stdout().is_terminal() {
            let remedy = "use --once for one frame as text, or --json";
            return Err(Failure::invalid("standard output is no terminal").remedy(remedy));
        }
        self.show()
    }

    fn read(&self) -> Result<PublishedStats, Failure> {
        let published = PublishedStats::read(&self.dir.dir).map_err(Failure::opening)?;
        published.ok_or_else(|| {
            let what = "no process publishes figures of a database there";
            let remedy = "the commands that write do once a second, and programs that set \
                          Options::publish_stats; of a database that nobody has open, see `unikv \
                          stats`";
            let failure = Failure::new(Code::NoDatabase, what);
            failure.remedy(remedy).in_file(&self.dir.dir)
        })
    }

    fn print_once(&self) -> Outcome {
        let mut looks = Looks::of(self.read()?);
        let until = Instant::now() + self.wait;
        while !looks.has_rates() && !super::stats::is_old(&looks.now) && Instant::now() < until {
            thread::sleep(LOOK_EVERY.min(self.wait));
            // It may be closed meanwhile: then the first look is what there is.
            match PublishedStats::read(&self.dir.dir) {
                Ok(Some(published)) => looks.take(published),
                _ => break,
            }
        }
        let dir = self.dir.dir.display().to_string();
        let frame = looks.frame(&dir, COLUMNS, ROWS);
        let mut out = io::stdout().lock();
        for line in frame.lines(false) {
            let text: String = line
                .spans
                .iter()
                .map(|span| span.content.as_ref())
                .collect();
            writeln!(out, "{}", text.trim_end())?;
        }
        Ok(Code::Success)
    }

    fn show(&self) -> Outcome {
        let mut looks = Looks::of(self.read()?);
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let dir = self.dir.dir.display().to_string();
        let signal = ending_signal()?;
        let mut terminal = ratatui::init();
        let keys = keys();
        let ended = loop {
            if signal.load(Ordering::Relaxed) != 0 {
                break Ok(Code::Success);
            }
            let drawn = terminal.draw(|screen| {
                let area = screen.area();
                let frame = looks.frame(&dir, area.width, area.height);
                let mut lines = frame.lines(colours);
                if lines.len() < usize::from(area.height) {
                    lines.push(Line::from("q leaves"));
                }
                let text = Text::from(lines);
                screen.render_widget(Paragraph::new(text), area);
            });
            if let Err(error) = drawn {
                break Err(error.into());
            }
            match wants_to_leave(&keys) {
                Ok(false) => {}
                Ok(true) => break Ok(Code::Success),
                Err(error) => break Err(error.into()),
            }
            match PublishedStats::read(&self.dir.dir) {
                Ok(Some(published)) => looks.take(published),
                Ok(None) => looks.gone = true,
                // Torn: the next one is about to come.
                Err(_) => {}
            }
        };
        let restored = ratatui::try_restore();
        if restored.is_err() || !io::stdout().is_terminal() {
            // It would say on standard error, which has gone with it, that it has no cursor.
            std::mem::forget(terminal);
        }
        if let Ok(signal @ 1..) = i32::try_from(signal.load(Ordering::Relaxed)) {
            // The terminal is as it was: now it ends the process as it would have.
            low_level::emulate_default_handler(signal)?;
        }
        ended
    }
}

/// The number of the signal that asks to end, once one has come; 0 until then.
fn ending_signal() -> io::Result<Arc<AtomicUsize>> {
    let came = Arc::new(AtomicUsize::new(0));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        flag::register_usize(signal, Arc::clone(&came), signal as usize)?;
    }
    Ok(came)
}

/// What is pressed. Read by a thread of its own, which never returns from a terminal that has gone.
fn keys() -> Receiver<io::Result<Event>> {
    let (pressed, keys) = mpsc::channel();
    thread::spawn(move || {
        loop {
            let event = event::read();
            let is_last = event.is_err();
            if pressed.send(event).is_err() || is_last {
                return;
            }
        }
    });
    keys
}

/// Waits for the next look, or for a key. True: the key for leaving.
fn wants_to_leave(keys: &Receiver<io::Result<Event>>) -> io::Result<bool> {
    let gone = || io::Error::other("the terminal has gone");
    let event = match keys.recv_timeout(LOOK_EVERY) {
        // One that has been hung up counts as none.
        Err(RecvTimeoutError::Timeout) if io::stdout().is_terminal() => return Ok(false),
        Err(_) => return Err(gone()),
        Ok(event) => event?,
    };
    let Event::Key(key) = event else {
        return Ok(false);
    };
    let is_interrupt =
        key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
    let leaves = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) || is_interrupt;
    Ok(leaves && key.kind == KeyEventKind::Press)
}

/// The last two figures of one process.
struct Looks {
    now: PublishedStats,
    before: Option<PublishedStats>,
    /// Nothing is published any more.
    gone: bool,
}

impl Looks {
    fn of(now: PublishedStats) -> Looks {
        Looks {
            now,
            before: None,
            gone: false,
        }
    }

    fn take(&mut self, published: PublishedStats) {
        self.gone = false;
        let is_same = published.pid == self.now.pid;
        if is_same && published.published == self.now.published {
            self.now.age = published.age;
            return;
        }
        // Of another process the counters have begun again.
        let is_later = is_same && published.published > self.now.published;
        let before = std::mem::replace(&mut self.now, published);
        self.before = is_later.then_some(before);
    }

    fn has_rates(&self) -> bool {
        self.before.is_some()
    }

    fn frame<'a>(&'a self, dir: &'a str, columns: u16, rows: u16) -> Frame<'a> {
        Frame {
            dir,
            now: &self.now,
            before: self.before.as_ref(),
            gone: self.gone,
            columns: usize::from(columns),
            rows: usize::from(rows),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(pid: u32, published: u64) -> PublishedStats {
        let mut figures = PublishedStats::default();
        (figures.pid, figures.published) = (pid, published);
        figures
    }

    #[test]
    fn rates_are_of_two_looks_at_one_process() {
        let mut looks = Looks::of(figures(1, 5));
        looks.take(figures(1, 5));
        assert!(!looks.has_rates(), "nothing new");
        looks.take(figures(1, 6));
        assert_eq!(looks.before.as_ref().map(|b| b.published), Some(5));
        looks.take(figures(2, 9));
        assert!(
            !looks.has_rates(),
            "another process counts from its own opening"
        );
        looks.take(figures(2, 10));
        assert!(looks.has_rates());
    }
}
