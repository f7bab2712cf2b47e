//! An engine with its settings, as the suite knows it.
//!
//! Every contender gets the same terms: one number of bytes of memory, and the durability. What a
//! contender makes of the number it says itself, in its settings, which stand in the report.

use crate::engine::Engine;
use crate::engines::btree::InMemory;
use crate::engines::unikv::UniKv;
use crate::failure::Failure;
use crate::measure::trace::Trace;
use crate::report::phase::PhaseReport;
use crate::run::Runner;
use crate::run::plan::Plan;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use unikv::{Clustering, Durability, Options};

/// What every engine is given.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Terms {
    /// All that the engine may allocate: what is buffered for writing, indexes and caches.
    pub memory_bytes: u64,
    /// Every write is synced before it is acknowledged; otherwise it has reached the kernel.
    pub sync: bool,
    /// What only UniKV has.
    pub tuning: Tuning,
}

/// Options of UniKV that experiments vary; each stays as it is by default unless given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// Bytes of a partition's UnsortedStore.
    pub unsorted_bytes: Option<u64>,
    /// Bytes of a partition.
    pub partition_bytes: Option<u64>,
    /// Bytes on disk for each byte of data.
    pub max_space_amp: Option<f64>,
    /// When values are copied into the order of their keys.
    pub clustering: Option<Clusters>,
    /// Values of fewer bytes stay beside their keys.
    #[serde(default)]
    pub inline_value_bytes: Option<u32>,
    /// Bytes of a memtable, whatever the scale.
    #[serde(default)]
    pub memtable_bytes: Option<u64>,
}

/// UniKV's choices of clustering.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Clusters {
    /// [`Clustering::Automatic`].
    Automatic,
    /// [`Clustering::LeastWriting`].
    LeastWriting,
}

impl From<Clusters> for Clustering {
    fn from(clusters: Clusters) -> Clustering {
        match clusters {
            Clusters::Automatic => Clustering::Automatic,
            Clusters::LeastWriting => Clustering::LeastWriting,
        }
    }
}

/// Names and values of settings, for the report.
pub type Settings = Vec<(&'static str, String)>;

/// An engine with its settings.
pub trait Contender: Sync {
    /// A short name, unique.
    fn name(&self) -> &'static str;

    /// The version of the engine.
    fn version(&self) -> String;

    /// Whether what was acknowledged is there after a kill, without syncing.
    fn survives_a_kill(&self) -> bool;

    /// What the engine makes of `terms`.
    fn settings(&self, terms: &Terms) -> Settings;

    /// Runs the phases of `plan`, and gives `done` each report as it comes; first, without one,
    /// that the store is open and how long that took.
    ///
    /// # Errors
    /// The engine failed, a value was wrong, or `done` failed.
    fn run(
        &self,
        plan: &Plan,
        terms: &Terms,
        done: &mut dyn FnMut(Progress) -> Result<(), Failure>,
    ) -> Result<(), Failure>;
}

/// What a run says while it goes on.
pub enum Progress {
    /// The store is open; it took so long.
    Opened(Duration),
    /// A phase has ended.
    Phase(Box<PhaseReport>),
}

/// A contender made of an engine and what translates terms for it.
pub struct Entrant<E: Engine> {
    /// See [`Contender::name`].
    pub name: &'static str,
    /// See [`Contender::version`].
    pub version: fn() -> String,
    /// See [`Contender::survives_a_kill`].
    pub survives_a_kill: bool,
    /// What the engine is opened with, and what of it stands in the report.
    pub setup: fn(&Terms) -> (E::Setup, Settings),
}

impl<E: Engine> Contender for Entrant<E> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> String {
        (self.version)()
    }

    fn survives_a_kill(&self) -> bool {
        self.survives_a_kill
    }

    fn settings(&self, terms: &Terms) -> Settings {
        (self.setup)(terms).1
    }

    fn run(
        &self,
        plan: &Plan,
        terms: &Terms,
        done: &mut dyn FnMut(Progress) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let trace = Some(Trace::in_memory());
        let mut runner = Runner::<E>::new(plan, (self.setup)(terms).0, trace)?;
        done(Progress::Opened(runner.opened))?;
        for phase in &plan.phases {
            let report = runner.run(phase).map_err(|e| e.in_phase(&phase.label));
            let mut report = report?;
            report.derive();
            done(Progress::Phase(Box::new(report)))?;
        }
        runner.close()
    }
}

/// The engines that need nothing but this crate.
pub fn own() -> Vec<Box<dyn Contender>> {
    vec![Box::new(UNIKV), Box::new(IN_MEMORY)]
}

/// UniKV with its defaults.
pub const UNIKV: Entrant<UniKv> = Entrant {
    name: "unikv",
    version: || env!("CARGO_PKG_VERSION").to_owned(),
    survives_a_kill: true,
    setup: unikv_setup,
};

/// The sorted map in memory, which shows what the clients cost.
pub const IN_MEMORY: Entrant<InMemory> = Entrant {
    name: "btreemap",
    version: || "of the standard library".to_owned(),
    survives_a_kill: false,
    setup: |_| {
        (
            (),
            vec![("durability", "none: kept when closed".to_owned())],
        )
    },
};

fn unikv_setup(terms: &Terms) -> (Options, Settings) {
    let durability = if terms.sync {
        Durability::Sync
    } else {
        Durability::Buffered
    };
    let mut options = Options::default()
        .memory_budget(terms.memory_bytes)
        .durability(durability);
    let mut settings = vec![
        ("memory_budget", terms.memory_bytes.to_string()),
        ("durability", format!("{durability:?}")),
    ];
    let (tuning, mut sizes) = (&terms.tuning, unikv::Tuning::default());
    if let Some(bytes) = tuning.unsorted_bytes {
        sizes = sizes.unsorted_bytes(bytes);
        settings.push(("unsorted_bytes", bytes.to_string()));
    }
    if let Some(bytes) = tuning.partition_bytes {
        sizes = sizes.partition_bytes(bytes);
        settings.push(("partition_bytes", bytes.to_string()));
    }
    if let Some(factor) = tuning.max_space_amp {
        options = options.max_space_amp(factor);
        settings.push(("max_space_amp", factor.to_string()));
    }
    if let Some(clusters) = tuning.clustering {
        options = options.clustering(clusters.into());
        settings.push(("clustering", format!("{clusters:?}")));
    }
    if let Some(bytes) = tuning.inline_value_bytes {
        options = options.inline_value_bytes(bytes);
        settings.push(("inline_value_bytes", bytes.to_string()));
    }
    if let Some(bytes) = tuning.memtable_bytes {
        sizes = sizes.memtable_bytes(bytes);
        settings.push(("memtable_bytes", bytes.to_string()));
    }
    settings.push(("everything else", "as by default".to_owned()));
    (options.tuning(sizes), settings)
}
