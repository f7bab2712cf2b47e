//! A secondary in another process: how far it lags, and what it costs the writer.

use crate::records::{Figures, Outcome, Records, beside, histogram, percentiles};
use crate::turns::{self, Setting};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use unikv::{Db, Options, SecondaryOptions};
use unikv_bench::Failure;

/// What the writer does a second while the lag is measured.
const RATE: u64 = 100_000;
/// How often the secondary is refreshed.
const EVERY: Duration = Duration::from_millis(10);
/// How often the writer notes the time, and the secondary looks for it.
const NOTED: Duration = Duration::from_millis(1);
const TIME: &[u8] = b"the time";

fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_nanos() as u64
}

/// The lag at a rate that is given, then the rate of a writer with and without a secondary.
pub fn run(dir: &Path, seconds: u64, rounds: usize) -> Outcome<Figures> {
    let records = Records {
        count: 1_000_000,
        bytes: 100,
    };
    let time = Duration::from_secs(seconds);
    let path = dir.join("db");
    let db = Db::open(&path, Options::default()).map_err(Failure::engine)?;
    records.load(&db)?;
    note_the_time(&db)?;
    let mut lag = String::new();
    let (written, ()) = beside(&db, &records, Some(RATE), || {
        let secondary = Other::start(&path)?;
        let begin = SystemTime::now();
        while begin.elapsed().unwrap_or_default() < time {
            note_the_time(&db)?;
            std::thread::sleep(NOTED);
        }
        lag = secondary.end()?;
        Ok(())
    })?;
    let mut figures = vec![
        (
            "writer".to_owned(),
            format!("{:.0} k/s", written.per_second() / 1e3),
        ),
        ("lag: half, 99 %, 99.9 %, longest".to_owned(), lag),
    ];
    let full_speed = || -> Outcome<f64> {
        let wait = || {
            std::thread::sleep(time);
            Ok(())
        };
        Ok(beside(&db, &records, None, wait)?.0.per_second())
    };
    let mut settings: Vec<Setting<'_>> = vec![
        ("a writer alone", Box::new(full_speed)),
        (
            "beside a secondary",
            Box::new(|| {
                let secondary = Other::start(&path)?;
                let rate = full_speed()?;
                secondary.end()?;
                Ok(rate)
            }),
        ),
    ];
    figures.extend(turns::compare(rounds, "puts/s", &mut settings)?);
    drop(settings);
    db.close().map_err(Failure::engine)?;
    Ok(figures)
}

fn note_the_time(db: &Db) -> Outcome<()> {
    db.put(TIME, now_ns().to_le_bytes())
        .map_err(Failure::engine)
}

/// The other process.
struct Other(Child);

impl Other {
    /// Starts it; returns when it shows the database.
    fn start(dir: &Path) -> Outcome<Other> {
        let program = std::env::current_exe().map_err(Failure::Io)?;
        let child = Command::new(program)
            .arg(dir)
            .arg("--follow")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.map_err(Failure::Io)?;
        let said = child.stdout.as_mut().map(|out| out.read_exact(&mut [0]));
        said.transpose().map_err(Failure::Io)?;
        Ok(Other(child))
    }

    /// Ends it; gives the lag that it has measured.
    fn end(mut self) -> Outcome<String> {
        drop(self.0.stdin.take());
        let output = self.0.wait_with_output().map_err(Failure::Io)?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        } else {
            Err(Failure::invalid("the secondary has failed"))
        }
    }
}

/// What the other process does: follows, reads the time that the writer has noted, and says at the
/// end of its input how old it was.
pub fn follow(dir: &Path) -> Outcome<()> {
    let options = SecondaryOptions::default().refresh_every(EVERY);
    let secondary = Db::open_secondary(dir, options).map_err(Failure::engine)?;
    println!();
    std::io::stdout().flush().map_err(Failure::Io)?;
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    std::thread::spawn(move || {
        let _ended = std::io::stdin().read_to_end(&mut Vec::new());
        over.store(true, Ordering::Relaxed);
    });
    let mut lag = histogram()?;
    while !is_over.load(Ordering::Relaxed) {
        std::thread::sleep(NOTED);
        let noted = secondary.get(TIME).map_err(Failure::engine)?;
        let noted = noted.and_then(|bytes| Some(u64::from_le_bytes(bytes[..].try_into().ok()?)));
        let noted = noted.ok_or_else(|| Failure::verification("no time was noted"))?;
        lag.saturating_record(now_ns().saturating_sub(noted));
    }
    if let Some(error) = secondary.stats().error {
        return Err(Failure::engine(error));
    }
    println!("{}", percentiles(&lag));
    Ok(())
}
