//! Opening databases, with a bar on a terminal where that takes long.

use crate::exit::Failure;
use indicatif::ProgressBar;
use std::path::Path;
use unikv::{Db, OpeningPhase, Options};
use unikv_bench::measure::progress::styled;

/// Opens a database, and creates it if there is none.
pub fn open(dir: &Path, options: Options) -> Result<Db, Failure> {
    with_bar(options, |options| Db::open(dir, options))
}

/// Opens a database that is there.
pub fn open_existing(dir: &Path, options: Options) -> Result<Db, Failure> {
    with_bar(options, |options| Db::open_existing(dir, options))
}

/// Opens a database that is there; where there is none it creates one if it `may_create`.
pub fn open_or_create(dir: &Path, options: Options, may_create: bool) -> Result<Db, Failure> {
    if may_create {
        open(dir, options)
    } else {
        open_existing(dir, options)
    }
}

/// Creates a database where there is none.
pub fn create_new(dir: &Path, options: Options) -> Result<Db, Failure> {
    with_bar(options, |options| Db::create_new(dir, options))
}

/// The bar comes with the first report, which a quick opening does not make.
fn with_bar(
    options: Options,
    open: impl FnOnce(Options) -> unikv::Result<Db>,
) -> Result<Db, Failure> {
    let bar = ProgressBar::new(0);
    let shown = bar.clone();
    let options = options
        .on_progress(move |progress| show(&shown, progress.phase, progress.done, progress.all));
    let opened = open(options);
    bar.finish_and_clear();
    opened.map_err(Failure::opening)
}

fn show(bar: &ProgressBar, phase: OpeningPhase, done: u64, all: u64) {
    let words = words(phase);
    if bar.message() != words {
        styled(bar.clone(), template(phase)).set_message(words);
        bar.reset_eta();
    }
    // Where it is not known how much there is, the bar stays empty.
    bar.set_length(all);
    bar.set_position(done);
    bar.tick();
}

fn template(phase: OpeningPhase) -> &'static str {
    match phase {
        OpeningPhase::Log => "opening: {msg} {wide_bar} {bytes}/{total_bytes} {eta}",
        _ => "opening: {msg} {wide_bar} {human_pos}/{human_len} {eta}",
    }
}

/// What an opening is doing.
fn words(phase: OpeningPhase) -> &'static str {
    match phase {
        OpeningPhase::Manifest => "reading the manifest",
        OpeningPhase::Files => "looking at the files",
        OpeningPhase::Log => "replaying the log",
        OpeningPhase::Indexes => "indexing what is not merged",
        other => other.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::{ProgressDrawTarget, ProgressStyle};

    #[test]
    fn the_bar_says_what_is_done_of_what_there_is() {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
        for (phase, done, all) in [
            (OpeningPhase::Manifest, 7, 0),
            (OpeningPhase::Log, 1 << 20, 4 << 20),
            (OpeningPhase::Log, 4 << 20, 4 << 20),
            (OpeningPhase::Indexes, 5, 20),
        ] {
            show(&bar, phase, done, all);
            assert_eq!(bar.message(), words(phase));
            assert_eq!((bar.position(), bar.length()), (done, Some(all)));
            assert!(ProgressStyle::with_template(template(phase)).is_ok());
        }
    }
}
