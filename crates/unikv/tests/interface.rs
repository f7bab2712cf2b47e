//! What holds for all of the public interface, as `docs/api.txt` lists it: types are `Send`,
//! `Sync` and `Debug`, those that are cheap to copy `Clone`, and those that may get more fields or
//! variants `#[non_exhaustive]`. Also that the links of the guide lead somewhere on docs.rs.
//!
//! An exception goes into the list here, with its reason.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot read the interface must fail"
)]

use std::collections::BTreeSet;
use std::fmt::Debug;

const API: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.txt");

fn owned<T: Debug + Send + Sync + 'static>() {}
fn borrowing<T: Debug + Send + Sync>() {}
fn of_one_thread<T: Debug>() {}
fn cheap_to_clone<T: Clone>() {}

/// Calls a function for each type, and returns the names of the types.
macro_rules! each {
    ($check:ident: $($type:ty),* $(,)?) => {{
        $($check::<$type>();)*
        [$(stringify!($type)),*]
    }};
}

fn owned_types() -> impl IntoIterator<Item = &'static str> {
    each!(owned:
        unikv::Batch,
        unikv::Change,
        unikv::ChangeOp,
        unikv::Changes,
        unikv::ChangesOptions,
        unikv::CheckReport,
        unikv::Checkpoint,
        unikv::CheckpointFile,
        unikv::ClosingReport,
        unikv::Clustering,
        unikv::Compression,
        unikv::Cursor,
        unikv::Db,
        unikv::DueJob,
        unikv::Durability,
        unikv::EffectiveOptions,
        unikv::Error,
        unikv::ErrorKind,
        unikv::Event,
        unikv::Expiry,
        unikv::Export,
        unikv::ExportFile,
        unikv::GarbageStats,
        unikv::HolderKind,
        unikv::HolderStats,
        unikv::Isolation,
        unikv::Iter,
        unikv::JobError,
        unikv::Keys,
        unikv::Keyspace,
        unikv::KeyspaceChange,
        unikv::KeyspaceOptions,
        unikv::LatencyStats,
        unikv::LifetimeStats,
        unikv::LogGap,
        unikv::LostKey,
        unikv::LostRange,
        unikv::MemoryStats,
        unikv::Mismatch,
        unikv::OpeningPhase,
        unikv::OpeningProgress,
        unikv::Options,
        unikv::PartitionStats,
        unikv::PinStats,
        unikv::Prefix,
        unikv::Problem,
        unikv::PublishedStats,
        unikv::ReadOptions,
        unikv::RecordFileStats,
        unikv::RecoveryReport,
        unikv::RepairFault,
        unikv::RepairOptions,
        unikv::RepairReport,
        unikv::RepairTrust,
        unikv::RepairedFile,
        unikv::RepairedLog,
        unikv::RunningJob,
        unikv::Secondary,
        unikv::SecondaryOptions,
        unikv::SecondaryStats,
        unikv::SlowOperation,
        unikv::Snapshot,
        unikv::StallCause,
        unikv::StallStats,
        unikv::Stats,
        unikv::StillOpen,
        unikv::StoredOption,
        unikv::TailCut,
        unikv::TimedOperation,
        unikv::ChangeToken,
        unikv::Transaction,
        unikv::Ttl,
        unikv::Tuning,
        unikv::UncertainKey,
        unikv::ValueReader,
        unikv::Wait,
        unikv::ChangeKind,
        unikv::WriteOptions,
        unikv::backup::Made,
        unikv::backup::Point,
        unikv::backup::Points,
        unikv::backup::Progress,
        unikv::backup::Pruned,
        unikv::backup::Repository,
        unikv::backup::Restored,
        unikv::backup::Verified,
        unikv::inspect::Inspection,
        unikv::inspect::Part,
        unikv::vfs::Access,
        unikv::vfs::Env,
        unikv::vfs::LockError,
        unikv::vfs::MemoryVfs,
        unikv::vfs::Process,
        unikv::vfs::Step,
        unikv::vfs::WriteMode,
        unikv::vfs::os::OsRuntime,
        unikv::vfs::os::OsVfs,
        unikv::vfs::os::Process,
        unikv::vfs::sim::Fault,
        unikv::vfs::sim::Keep,
        unikv::vfs::sim::Op,
        unikv::vfs::sim::Rule,
        unikv::vfs::sim::SimRuntime,
        unikv::vfs::sim::SimVfs,
    )
}

fn borrowing_types() -> impl IntoIterator<Item = &'static str> {
    each!(borrowing:
        unikv::Operation<'_>,
        unikv::TransactionKeyspace<'_>,
        unikv::vfs::DirectRead<'_>,
        unikv::vfs::sim::Call<'_>,
        unikv::vfs::sim::ReadCall<'_>,
    )
}

/// An ingest keeps the database from being closed by a lock of the standard library, which only the
/// thread that took it may release.
fn types_of_one_thread() -> impl IntoIterator<Item = &'static str> {
    each!(of_one_thread: unikv::Ingest<'_>)
}

/// Types behind features that are not on by default, which `docs/api.txt` lists all the same.
fn types_of_features() -> Vec<&'static str> {
    #[cfg(feature = "tracing")]
    each!(owned: unikv::TracingListener);
    vec!["unikv::TracingListener"]
}

/// A path as `docs/api.txt` has it, without spaces and generic arguments.
fn path(of: &str) -> String {
    let end = of.find(['<', '(']).unwrap_or(of.len());
    of[..end].split_whitespace().collect()
}

/// A struct or enum of `docs/api.txt`.
struct Listed {
    path: String,
    is_enum: bool,
    non_exhaustive: bool,
    has_public_fields: bool,
}

fn listed() -> Vec<Listed> {
    let text = std::fs::read_to_string(API).unwrap();
    let mut types = Vec::new();
    for line in text.lines() {
        let (non_exhaustive, item) = match line.strip_prefix("#[non_exhaustive] ") {
            Some(item) => (true, item),
            None => (false, line),
        };
        for (start, is_enum) in [("pub struct ", false), ("pub enum ", true)] {
            let Some(rest) = item.strip_prefix(start) else {
                continue;
            };
            let path = path(rest.split_once(' ').map_or(rest, |(path, _)| path));
            let field = format!("pub {path}::");
            types.push(Listed {
                has_public_fields: text.lines().any(|line| line.starts_with(&field)),
                path,
                is_enum,
                non_exhaustive,
            });
        }
    }
    assert!(types.len() > 100, "{} types", types.len());
    types
}

#[test]
fn every_type_is_send_and_sync_and_debug() {
    let listed: BTreeSet<_> = listed().into_iter().map(|listed| listed.path).collect();
    let checked = owned_types()
        .into_iter()
        .chain(borrowing_types())
        .chain(types_of_one_thread());
    let checked: BTreeSet<_> = checked.chain(types_of_features()).map(path).collect();
    let missing: Vec<_> = listed.difference(&checked).collect();
    assert!(
        missing.is_empty(),
        "not in the lists of this test: {missing:?}"
    );
    let gone: Vec<_> = checked.difference(&listed).collect();
    assert!(gone.is_empty(), "not in docs/api.txt: {gone:?}");
}

/// Handles, and what configures or describes something. Iterators, cursors, readers and
/// transactions are none of these: a copy would be a second place in something that goes on.
#[test]
fn what_is_cheap_to_clone_is_clone() {
    each!(cheap_to_clone:
        unikv::ChangesOptions,
        unikv::Db,
        unikv::Error,
        unikv::Keyspace,
        unikv::KeyspaceOptions,
        unikv::Operation<'_>,
        unikv::Options,
        unikv::Prefix,
        unikv::ReadOptions,
        unikv::RepairOptions,
        unikv::Secondary,
        unikv::SecondaryOptions,
        unikv::Snapshot,
        unikv::ChangeToken,
        unikv::TransactionKeyspace<'_>,
        unikv::Tuning,
        unikv::WriteOptions,
        unikv::backup::Repository,
        unikv::vfs::Env,
        unikv::vfs::MemoryVfs,
        unikv::vfs::sim::SimVfs,
    );
}

/// What callers build or match in full, with the reason.
const EXHAUSTIVE: &[(&str, &str)] = &[
    (
        "unikv::vfs::DirectRead",
        "an environment of the caller may pass such reads on to another",
    ),
    ("unikv::vfs::Env", "built by who brings an environment"),
    (
        "unikv::vfs::sim::Call",
        "tests of environments and rules build them",
    ),
    (
        "unikv::vfs::sim::Fault",
        "a rule returns one; the simulation alone takes it apart",
    ),
    (
        "unikv::vfs::sim::Keep",
        "a test chooses one; the simulation alone takes it apart",
    ),
    ("unikv::vfs::sim::ReadCall", "as Call"),
];

#[test]
fn what_may_grow_is_non_exhaustive() {
    let may_grow = |listed: &Listed| listed.is_enum || listed.has_public_fields;
    let found = listed().into_iter();
    let found = found.filter(|listed| may_grow(listed) && !listed.non_exhaustive);
    let found: BTreeSet<_> = found.map(|listed| listed.path).collect();
    let allowed = EXHAUSTIVE.iter().map(|(path, _)| (*path).to_owned());
    assert_eq!(found, allowed.collect());
}

/// The guide names its links by reference and defines them at its end, for a checkout. The module
/// `unikv::guide` defines each of them before, for documentation that has no files beside it.
#[test]
fn the_links_of_the_guide_have_targets_in_the_documentation() {
    let guide = include_str!("../guide.md");
    let inline: Vec<_> = guide.lines().filter(|line| line.contains("](")).collect();
    assert!(inline.is_empty(), "links without a reference: {inline:?}");
    let name = |line: &str| Some(line.split_once("]: ")?.0.strip_prefix('[')?.to_lowercase());
    let defined: BTreeSet<_> = guide.lines().filter_map(name).collect();
    let (before, _) = include_str!("../src/lib.rs")
        .split_once("guide.md\")]\n///")
        .unwrap();
    let comments = before.lines().filter_map(|line| line.strip_prefix("/// "));
    let documented: BTreeSet<_> = comments.filter_map(name).collect();
    assert_eq!(defined, documented);
}
