//! Tests of the tests: the engine is asked to make a mistake, and a short test of the ordinary kind
//! must catch it. See `unikv::Seeded` for the mistakes, `scripts/seeded_bugs.sh` for how this is
//! run.
//!
//! Each bug is given to the kind of test that ought to catch it, and to the seed from which on that
//! test is tried. The test must pass without the bug and fail with it, each in a process of its
//! own: no test knows which bug is armed. A table says what caught each bug, and after how many
//! histories of those that the ordinary run has.
//!
//! Variables: `UNIKV_BUG`, only the bugs whose names begin so; `UNIKV_BY`, by this kind of test
//! instead, from its first seed on; `UNIKV_WITHIN`, seeds to try.
#![cfg(unikv_seeded_bugs)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test, whose table is for a person"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use std::{env, thread};
use unikv::Seeded;
use unikv_sim::crash::{self, Depth};
use unikv_sim::damage::{self, shapes::SHAPES};
use unikv_sim::history::{History, Mix};
use unikv_sim::scenario::bounds;
use unikv_sim::{fault, runner};

/// The kinds of test, with the seeds and lengths that they have elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// A history against the oracle.
    History,
    /// The same with kills and power cuts.
    Crashes,
    /// The power cut at calls of a history, and again while it is recovered from.
    Cuts,
    /// An error of the disk at calls of a history.
    Faults,
    /// Little space at calls of a history.
    Shortage,
    /// A disk that becomes full.
    FullDisk,
    /// Every damage of the database of one shape, whose place among all shapes is the seed.
    Damage,
    /// Histories that go to the bounds of what is copied for scans.
    Bounds,
    /// A test that explores by itself: its binary, whose path `UNIKV_TESTS` gives, and its name.
    Test(&'static str, &'static str),
}

impl By {
    const KINDS: [By; 8] = [
        By::History,
        By::Crashes,
        By::Cuts,
        By::Faults,
        By::Shortage,
        By::FullDisk,
        By::Damage,
        By::Bounds,
    ];

    /// The first seed that this test has in the ordinary run.
    fn first_seed(self) -> u64 {
        match self {
            By::Damage | By::Bounds => 0,
            By::History | By::Faults | By::Test(..) => 1,
            By::Crashes => 1000,
            By::Cuts => 100,
            By::Shortage => 700,
            By::FullDisk => 900,
        }
    }

    /// Seeds that are tried from a recorded one on: the generator of histories changes now and
    /// then.
    fn within(self) -> u64 {
        match self {
            By::History | By::Crashes => 100,
            By::Damage | By::Bounds | By::Test(..) => 1,
            _ => 20,
        }
    }

    fn run(self, seed: u64) {
        let history = |crashes| {
            let mix = Mix {
                steps: 400,
                reads: true,
                crashes,
                reopens: true,
                busy: false,
            };
            runner::run(&History::draw(seed, mix));
        };
        match self {
            By::History => history(false),
            By::Crashes => history(true),
            By::Cuts => {
                let depth = Depth {
                    points: 25,
                    nested_every: 12,
                    nested_points: 6,
                };
                crash::explore(seed, 80, depth, &mut crash::Tally::default());
            }
            By::Faults => fault::explore(seed, 60, 25, &mut fault::Tally::default()),
            By::Shortage => drop(fault::run_short_of_space(seed, 80, 12)),
            By::FullDisk => drop(fault::fill_the_disk(seed, 200)),
            By::Damage => {
                let shape = &SHAPES[seed as usize % SHAPES.len()];
                damage::explore(&shape.build(1), None);
            }
            By::Bounds => bounds::all().iter().for_each(bounds::play),
            By::Test(..) => {}
        }
    }
}

/// A bug, what has to catch it, and how many seeds may be left out because they did not when this
/// was written.
struct Case(Seeded, By, u64);

use By::{Bounds, Crashes, Cuts, Damage, Faults, History as Histories, Shortage, Test};

const FOLLOWED: &str = "engine::secondary::tests::keyspaces_ranges_marks_large_values_ingests_and_what_expires_are_followed";
const DURING_A_REFRESH: &str = "engine::secondary::tests::whatever_is_written_during_a_refresh_it_shows_a_state_that_the_writer_showed";

/// A unit test of the engine.
const fn unit(name: &'static str) -> By {
    Test("unikv", name)
}

/// The simulator of decisions.
const DECISIONS: By =
    unit("jobs::plan::tests::simulator::decisions_are_right_in_any_history_of_a_small_world");

/// Each is here because an explorer must find it: a test of its own explores, too, by cuts,
/// damage, many histories or interleavings. What a plain assertion catches needs no bug.
const CASES: &[Case] = &[
    // Checkpoints and backups.
    Case(
        Seeded::CheckpointOfDurableLog,
        unit(
            "engine::checkpoint::tests::a_checkpoint_is_the_database_at_its_number_and_lives_by_itself",
        ),
        0,
    ),
    Case(Seeded::SecondaryKeepsFlushed, unit(FOLLOWED), 0),
    Case(Seeded::SecondaryMissesEdits, unit(DURING_A_REFRESH), 0),
    Case(
        Seeded::SecondaryIndexStale,
        unit("engine::secondary::tests::a_secondary_shows_each_state_across_every_job"),
        0,
    ),
    Case(
        Seeded::EditForgetsLog,
        unit("engine::keyspaces::tests::a_log_that_lost_writes_before_a_drop_is_found_out"),
        0,
    ),
    Case(
        Seeded::EditUnnoted,
        unit("engine::keyspaces::tests::a_manifest_that_lost_a_drop_is_found_out"),
        0,
    ),
    Case(
        Seeded::SecondaryCopiesNoMark,
        unit(
            "engine::secondary::copies::tests::a_checkpoint_of_a_secondary_is_what_it_shows_and_lives_by_itself",
        ),
        0,
    ),
    Case(
        Seeded::CheckpointForgetsBlobs,
        unit(
            "engine::checkpoint::tests::a_checkpoint_is_the_database_at_its_number_and_lives_by_itself",
        ),
        0,
    ),
    Case(
        Seeded::CheckpointNameUnsynced,
        unit(
            "engine::checkpoint::tests::a_power_cut_at_any_call_leaves_no_checkpoint_or_a_whole_one",
        ),
        0,
    ),
    Case(
        Seeded::PruneFilesFirst,
        unit("backup::tests::a_pruning_cut_at_any_call_leaves_what_is_kept_and_nothing_broken"),
        0,
    ),
    // The change feed.
    Case(
        Seeded::FeedShowsUnsynced,
        unit("engine::changes::tests::no_power_cut_takes_what_a_reader_has_seen"),
        0,
    ),
    Case(
        Seeded::IncarnationForgotten,
        unit("engine::changes::tests::no_power_cut_takes_what_a_reader_has_seen"),
        0,
    ),
    Case(
        Seeded::WindowRecycled,
        unit("engine::changes::tests::a_reader_that_lags_too_much_is_refused_and_never_wrong"),
        0,
    ),
    Case(Seeded::OnlyNextIncarnation, Cuts, 0),
    Case(
        Seeded::WindowWithGap,
        unit("engine::changes::tests::writes_that_only_tables_have_are_not_left_out"),
        0,
    ),
    // Exports and ingests.
    Case(
        Seeded::CutExportImported,
        unit("export::tests::every_damaged_byte_and_every_cut_is_found"),
        0,
    ),
    Case(
        Seeded::ImportPersists,
        unit("export::tests::what_is_exported_is_imported_as_it_was"),
        0,
    ),
    Case(
        Seeded::ExportNameUnsynced,
        unit("export::tests::an_export_that_is_interrupted_is_not_there_or_whole"),
        0,
    ),
    // What expires.
    Case(Seeded::ExpiryByWallClock, Histories, 0),
    Case(Seeded::ExpiryForgetsSnapshots, Histories, 0),
    Case(Seeded::ExpiredLeavesNothing, Histories, 0),
    Case(Seeded::IncrementPersists, Histories, 0),
    Case(Seeded::WallClockDestroys, Histories, 0),
    Case(Seeded::ReadsByMark, Crashes, 0),
    Case(Seeded::MergePersists, Histories, 0),
    Case(Seeded::IngestPersists, Histories, 0),
    Case(Seeded::SnapshotOfNow, Histories, 0),
    // The log.
    Case(Seeded::AckBeforeSync, Cuts, 0),
    Case(Seeded::SegmentNameUnsynced, Cuts, 0),
    Case(Seeded::SyncNewestAlone, Cuts, 0),
    Case(Seeded::RetryFailedSync, Faults, 9),
    Case(
        Seeded::PublishBeforeInsert,
        unit("engine::tests::other_threads_see_a_batch_whole_or_not_at_all"),
        0,
    ),
    Case(Seeded::TornPayloadReplayed, Cuts, 0),
    Case(Seeded::UnlinkedAtOpen, Cuts, 0),
    Case(Seeded::ReplayBehindBreak, Cuts, 0),
    Case(Seeded::ReplayBehindTorn, Cuts, 0),
    // The shape with a torn log.
    Case(Seeded::CutBelowMark, Damage, 10),
    Case(Seeded::LoseLastRecord, Histories, 0),
    Case(Seeded::FlushNewestFirst, Crashes, 0),
    Case(
        Seeded::BatchOldestFirst,
        unit(
            "engine::write::large_batch::tests::large_batches_are_read_as_any_others_before_and_after_flushes_and_kills",
        ),
        0,
    ),
    Case(
        Seeded::BatchSeenEarly,
        unit(
            "engine::write::large_batch::tests::large_batches_are_read_as_any_others_before_and_after_flushes_and_kills",
        ),
        0,
    ),
    Case(
        Seeded::BatchPassGap,
        unit(
            "engine::background::ingest::batch::tests::a_batch_beyond_memory_is_written_as_a_whole_and_the_last_operation_on_a_key_counts",
        ),
        0,
    ),
    Case(
        Seeded::FlushDropsUnflushed,
        unit(
            "engine::background::commit::split_tests::threads_split_merge_and_flush_beside_writers_and_readers",
        ),
        0,
    ),
    // The manifest, and what it lists.
    Case(Seeded::DirectoryUnsynced, Cuts, 0),
    Case(Seeded::ManifestUnsynced, Cuts, 0),
    Case(
        Seeded::MarkAheadOfSync,
        unit("version::manifest::tests::a_note_that_a_power_cut_tears_ends_the_manifest"),
        0,
    ),
    Case(Seeded::ManifestNameUnsynced, Cuts, 0),
    Case(Seeded::LogRemovedBeforeEdit, Cuts, 0),
    Case(Seeded::LogRecycledBeforeEdit, Cuts, 0),
    Case(Seeded::DataRemovedBeforeEdit, Cuts, 0),
    Case(Seeded::RemoveUnsure, Faults, 0),
    Case(Seeded::LowWaterTooHigh, Crashes, 0),
    Case(Seeded::FlushedSeqTooHigh, Crashes, 0),
    Case(Seeded::NewestMark, Cuts, 0),
    Case(Seeded::ReuseFileNumbers, Histories, 0),
    Case(Seeded::SweepNeededLog, Cuts, 0),
    Case(Seeded::StaleLiveCounts, Histories, 0),
    Case(Seeded::DropUnmergedTable, Histories, 0),
    Case(Seeded::LargeValuesUncounted, Histories, 0),
    // The hash index and lookups.
    Case(Seeded::TrustTag, Histories, 0),
    Case(Seeded::OldestSlotFirst, Histories, 0),
    Case(Seeded::OldGenerationFirst, Histories, 0),
    Case(Seeded::FrozenUnindexed, Histories, 0),
    Case(Seeded::DamagedSectionIsEmpty, Damage, 1),
    Case(Seeded::SkipTableWithNewer, Histories, 0),
    Case(Seeded::NewestVersionAlone, Histories, 40),
    Case(Seeded::FirstKeyUnindexed, Histories, 0),
    Case(Seeded::FirstKeyPassedBack, Histories, 0),
    Case(Seeded::FindTombstones, Histories, 0),
    Case(Seeded::FindNewest, Histories, 0),
    // Merge, garbage collection, split, join, scan merge, clustering.
    Case(Seeded::DropEveryTombstone, Histories, 0),
    Case(Seeded::DropTombstonesInRun, Histories, 0),
    Case(Seeded::DropSnapshotVersion, Histories, 0),
    Case(Seeded::SortedStoreFirst, Histories, 0),
    Case(Seeded::MergeNewestFirst, Histories, 0),
    Case(Seeded::MergeSmallInKeyOrder, DECISIONS, 0),
    Case(
        Seeded::MergeUnsynced,
        unit(
            "engine::background::run::merge_tests::small::small_merges_that_are_one_job_survive_a_power_cut",
        ),
        0,
    ),
    Case(Seeded::MergeBeyondBorder, Histories, 0),
    Case(Seeded::GcRenumbers, Histories, 0),
    Case(Seeded::SplitLosesBorderKey, Histories, 0),
    Case(Seeded::JoinLosesBorderKey, Histories, 0),
    Case(Seeded::JoinForgetsUnmerged, Histories, 0),
    Case(Seeded::ClusterNewestAlone, Histories, 0),
    Case(Seeded::ClusterOldestAlone, Histories, 0),
    Case(Seeded::ClusterForever, Bounds, 0),
    Case(Seeded::ClusterBeyondRoom, Bounds, 0),
    Case(Seeded::ClusterBesideReaders, Bounds, 0),
    Case(Seeded::ClusterUncharged, DECISIONS, 0),
    Case(Seeded::JoinLeased, DECISIONS, 0),
    Case(Seeded::JoinPassedByMerges, DECISIONS, 0),
    Case(Seeded::BackoffIgnored, DECISIONS, 0),
    Case(Seeded::JoinAcrossGap, DECISIONS, 0),
    Case(Seeded::FlushUnblocked, DECISIONS, 0),
    Case(Seeded::StaleSplits, DECISIONS, 0),
    Case(Seeded::ClusterUnspent, Bounds, 0),
    Case(Seeded::ClusterWhole, Bounds, 0),
    Case(Seeded::ClusterLarge, Bounds, 0),
    Case(Seeded::RunHidesNewer, Histories, 0),
    Case(Seeded::IteratorUnregistered, Histories, 0),
    // Ingest and large values.
    Case(Seeded::IngestKeepsTargets, Histories, 0),
    Case(Seeded::LargeNameUnsynced, Cuts, 0),
    Case(Seeded::ChunkedLengthGuessed, Histories, 0),
    Case(Seeded::RangeFromChunkStart, Histories, 0),
    // Damage.
    Case(Seeded::BlockUnchecked, Damage, 1),
    // The shape with large values in chunks.
    Case(Seeded::ChunkUnchecked, Damage, 19),
    // The shape with a dictionary.
    Case(Seeded::DictionaryUnchecked, Damage, 15),
    Case(Seeded::InlineAsStored, Histories, 0),
    Case(Seeded::RecordUnchecked, Damage, 1),
    Case(Seeded::ChecksumUnbound, Damage, 1),
    Case(Seeded::CacheForgetsFile, Crashes, 0),
    Case(
        Seeded::RepairLosesRanges,
        unit(
            "offline::repair::range_deletes::tests::what_a_damaged_tombstone_may_have_deleted_is_in_doubt",
        ),
        0,
    ),
    Case(
        Seeded::RepairTakesOlder,
        Test(
            "repair",
            "a_flipped_bit_in_a_record_file_loses_one_record_at_most",
        ),
        0,
    ),
    // Iterators.
    Case(Seeded::ReanchorTooFar, Histories, 0),
    Case(Seeded::BackwardOldest, Histories, 0),
    Case(Seeded::EndsOverlap, Histories, 0),
    Case(Seeded::TurnsOnTheSpot, Histories, 0),
    // The whole.
    Case(
        Seeded::SpoiledCheckCounts,
        unit(
            "offline::check::beside::tests::a_check_finds_nothing_wrong_whenever_another_process_opens_the_database",
        ),
        0,
    ),
    Case(Seeded::KeysNotCompared, Histories, 0),
    Case(Seeded::RangesNotCompared, Histories, 0),
    Case(Seeded::FlushedNotCompared, Histories, 0),
    Case(Seeded::OwnDeletesEnd, Histories, 0),
    Case(
        Seeded::CoarseEndsEarly,
        unit(
            "engine::recent::seen::tests::what_is_coarser_holds_what_it_held_and_takes_what_it_may",
        ),
        0,
    ),
    Case(
        Seeded::EmptiedKeepsPuts,
        unit("txn::tests::what_was_emptied_is_shown_where_it_is_filled_again"),
        0,
    ),
    Case(
        Seeded::EmptiedForEarlier,
        unit("txn::tests::what_was_emptied_is_shown_where_it_is_filled_again"),
        0,
    ),
    // Range tombstones.
    Case(Seeded::MergedRangesLost, Histories, 0),
    Case(
        Seeded::ComesWhileOrdering,
        unit("memtable::tests::entries_that_come_while_others_are_put_in_order_are_in_order"),
        0,
    ),
    Case(Seeded::RangeNeedsKey, Histories, 0),
    Case(Seeded::SplitForgetsRanges, Histories, 0),
    Case(Seeded::SkipUndeleted, Histories, 0),
    Case(Seeded::MergeForgetsRanges, Histories, 0),
    Case(Seeded::DropTableUnderSnapshot, Histories, 0),
    Case(Seeded::KeptIsUndeleted, Histories, 0),
    Case(Seeded::EmptiedForSnapshots, Histories, 0),
    Case(Seeded::DropBeforeSync, Crashes, 30),
    Case(Seeded::RefusedAndWritten, Shortage, 0),
];

/// What became of a case.
struct Outcome {
    bug: Seeded,
    by: By,
    /// After how many histories, and how; `None`: not at all.
    caught: Option<(u64, String)>,
    passed: String,
    millis: u128,
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Runs some seeds of a kind of test in another process, with `bug` armed.
fn run_seeds(by: By, first: u64, count: u64, bug: Option<Seeded>) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "--ignored", "--nocapture", "seeds_of_one_kind"]);
    command.env("UNIKV_BY", format!("{by:?}"));
    command.env("UNIKV_SEED", first.to_string());
    command.env("UNIKV_WITHIN", count.to_string());
    arm(command, bug)
}

fn arm(mut command: Command, bug: Option<Seeded>) -> Output {
    command.env_remove("UNIKV_SEEDED_BUG");
    if let Some(bug) = bug {
        command.env("UNIKV_SEEDED_BUG", format!("{bug:?}"));
    }
    command.output().unwrap()
}

/// Whether a seed of a kind of test passes without any bug.
fn holds(by: By, seed: u64) -> bool {
    static KNOWN: Mutex<BTreeMap<String, bool>> = Mutex::new(BTreeMap::new());
    let place = format!("{by:?} {seed}");
    if let Some(known) = KNOWN.lock().unwrap().get(&place) {
        return *known;
    }
    let holds = run_seeds(by, seed, 1, None).status.success();
    KNOWN.lock().unwrap().insert(place, holds);
    holds
}

/// The line that `output` has after the last `commit_tag`.
fn told(output: &Output, commit_tag: &str) -> Option<String> {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    let (_, behind) = text.rsplit_once(commit_tag)?;
    Some(behind.lines().next().unwrap_or_default().to_owned())
}

/// What the first panic said.
fn message(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut behind = text
        .lines()
        .skip_while(|line| !line.contains("panicked at"));
    behind.nth(1).unwrap_or("it died").to_owned()
}

fn examine(&Case(bug, by, after): &Case) -> Outcome {
    let begin = Instant::now();
    let mut outcome = Outcome {
        bug,
        by,
        caught: None,
        passed: String::new(),
        millis: 0,
    };
    if let By::Test(binary, name) = by {
        let run = |bug| {
            let mut command = Command::new(test_binary(binary));
            command.args(["--exact", "--include-ignored", name]);
            arm(command, bug)
        };
        let (without, with) = (run(None), run(Some(bug)));
        // A slow test also prints that it "has been running for over 60 seconds".
        let has_run =
            told(&without, "test result: ok. ").is_some_and(|tests| tests.starts_with("1 passed"));
        assert!(
            without.status.success() && has_run,
            "{name} fails without {bug:?}: {}{}",
            String::from_utf8_lossy(&without.stdout),
            String::from_utf8_lossy(&without.stderr)
        );
        outcome.caught = (!with.status.success()).then(|| (1, name.to_owned()));
    } else {
        let first = by.first_seed() + after;
        let within = number("UNIKV_WITHIN").unwrap_or(by.within());
        let with = run_seeds(by, first, within, Some(bug));
        outcome.passed = told(&with, "passed so often: ").unwrap_or_default();
        if !with.status.success() {
            let seed = told(&with, "next seed: ").unwrap();
            let seed: u64 = seed.parse().unwrap();
            assert!(
                holds(by, seed),
                "{by:?} of seed {seed} fails without {bug:?}"
            );
            outcome.caught = Some((seed - by.first_seed() + 1, message(&with)));
        }
    }
    outcome.millis = begin.elapsed().as_millis();
    outcome
}

/// `UNIKV_TESTS` holds paths of test binaries, named as cargo names them.
fn test_binary(name: &str) -> PathBuf {
    let paths = env::var("UNIKV_TESTS").unwrap_or_default();
    let is_it = |path: &&str| {
        path.rsplit('/')
            .next()
            .unwrap()
            .starts_with(&format!("{name}-"))
    };
    let found = paths.split_whitespace().find(is_it);
    found
        .unwrap_or_else(|| panic!("UNIKV_TESTS has no {name}"))
        .into()
}

impl Outcome {
    fn print(&self) {
        let (bug, by) = (format!("{:?}", self.bug), self.by);
        let (after, how) = match &self.caught {
            Some((after, how)) => (after.to_string(), &how[..]),
            None => ("-".to_owned(), "NOT CAUGHT"),
        };
        let how: String = how.chars().take(90).collect();
        let by = match by {
            By::Test(binary, _) => format!("test {binary}"),
            by => format!("{by:?}"),
        };
        let (passed, millis) = (&self.passed, self.millis);
        println!("{bug:<26} {by:<12} {after:>5} {passed:>7} {millis:>6} ms  {how}");
    }
}

/// Not a test by itself: what [`run_seeds`] runs.
#[test]
#[ignore = "run by the other one, with a bug armed"]
fn seeds_of_one_kind() {
    let name = env::var("UNIKV_BY").unwrap();
    let by = By::KINDS.into_iter().find(|by| format!("{by:?}") == name);
    let first = number("UNIKV_SEED").unwrap();
    for seed in first..first + number("UNIKV_WITHIN").unwrap() {
        println!("next seed: {seed}");
        by.unwrap().run(seed);
    }
    println!("passed so often: {}", Seeded::passed());
}

#[test]
fn every_seeded_bug_is_caught() {
    let wanted = env::var("UNIKV_BUG").unwrap_or_default();
    let by = env::var("UNIKV_BY").ok();
    let of_kind = |by: &String| {
        By::KINDS
            .into_iter()
            .find(|kind| format!("{kind:?}") == *by)
    };
    let by = by.map(|by| of_kind(&by).unwrap());
    let given = |bug: &Seeded| CASES.iter().find(|case| case.0 == *bug);
    let cases: Vec<Case> = Seeded::ALL
        .iter()
        .filter(|bug| format!("{bug:?}").starts_with(&wanted))
        .map(|bug| match (by, given(bug)) {
            (Some(by), _) => Case(*bug, by, 0),
            (None, Some(Case(bug, by, after))) => Case(*bug, *by, *after),
            (None, None) => panic!("no test is given {bug:?}"),
        })
        .collect();
    println!("bug                        by           after  passed            how");
    let (next, uncaught) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = thread::available_parallelism().map_or(1, |n| n.get());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = examine(case);
                    let mut uncaught = uncaught.lock().unwrap();
                    outcome.print();
                    if outcome.caught.is_none() {
                        uncaught.push(outcome.bug);
                    }
                }
            });
        }
    });
    let uncaught = uncaught.into_inner().unwrap();
    assert!(uncaught.is_empty(), "not caught: {uncaught:?}");
}
