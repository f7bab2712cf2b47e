//! `ycsb`: the YCSB core workloads with verification of every value read, over the library of
//! workloads and measurement that also compares engines (`unikv-bench`).

use crate::args::{self, EngineArgs, durability_name};
use crate::commands::stats::{options_to_json, recovery_to_json};
use crate::exit::{Code, Failure, Outcome};
use crate::output::{Output, joined};
use clap::Args;
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;
use unikv::{Db, EffectiveOptions};
use unikv_bench::engine::Engine;
use unikv_bench::engines::unikv::UniKv;
use unikv_bench::measure::machine::Machine;
use unikv_bench::measure::trace::Trace;
use unikv_bench::report::fold::print_folded;
use unikv_bench::report::phase::{self, PhaseReport};
use unikv_bench::report::summary::{self, Summary};
use unikv_bench::report::table;
use unikv_bench::run::Runner;
use unikv_bench::run::plan::Plan;
use unikv_bench::workload::generator::Distribution;
use unikv_bench::workload::keys::{self, KeyOrder};
use unikv_bench::workload::phases::{Kind, Phase};
use unikv_bench::workload::{values, versions};

const LONG_HELP: &str = "\
Phases, separated by commas, each NAME[:DISTRIBUTION][@AMOUNT][*THREADS][~RATE][+BESIDE]. The amount
is a number of operations or a time (10s, 2min); with a rate, operations are due so many times a
second, and are timed from then; beside it other clients may work at a rate until the phase ends, as
in scan50@2min+update~10k:
  load, p0     insert all records
  a            50 % read, 50 % update
  b            95 % read, 5 % update
  c, read      100 % read
  d            95 % read, 5 % insert, newest records hottest
  e            95 % scan of 1 to 100 records, 5 % insert
  f            50 % read, 50 % read-modify-write
  update       100 % update
  p1, p2, p3   100 % update, as many as records were loaded (HashKV's phases)
  insert       100 % insert of new records
  delete       delete so many different records, whatever the distribution
  scan, scanN  100 % scan of 1 to 100 records, or of N
  rscan, rscanN  the same backwards
  mixN         N % read, the rest update
  absentN      100 % read, N % of them of keys that were never written
  multiN       reads of N records in one call
  batchN       updates of N records in one batch
  reopen       close and open
  verify       verify-scan and verify-gets together
  verify-scan  a full scan against the full list of keys
  verify-gets  a get of every record
  settle       wait until nothing runs in the background, and then for the device
  pauseN       do nothing for N seconds
  drop-cache   drop the pages of the database's files from the page cache; as the first phase
               before the opening, too
  flush        write the memtables into tables
  compact      merge everything into the SortedStore
  die          kill this process, as kill -9 does

Example: unikv ycsb /data/db --workload load,settle,a,scan50@100k,c:uniform,reopen,verify

With --check-space the directory is listed every 100 ms through all phases; files other than the
write-ahead log may take max_space_amp times the keys and values of the records there, and 2 times
unsorted_bytes for each background thread, and --space-floor. A breach fails the run at its end.

Keys are 24 bytes. Values hold their record number and version and a fill that follows from them;
every value read is checked against the versions acknowledged. The zipfian distribution has the
constant 0.99 over the number of records. Without a rate, latencies are service times of a closed loop.";

/// `ycsb DIR`
#[derive(Args)]
#[command(after_help = LONG_HELP)]
pub struct Ycsb {
    /// The directory of the database; it is kept unless --cleanup is given
    dir: PathBuf,
    /// The phases to run, in order
    #[arg(
        long,
        value_name = "PHASES",
        default_value = "load,a,b,c,d,e,f,reopen,verify"
    )]
    workload: String,
    /// Records to load, or already loaded if there is no load phase
    #[arg(long, value_name = "COUNT", value_parser = args::count, default_value = "100k")]
    records: u64,
    /// Operations of each phase
    #[arg(long, value_name = "COUNT", value_parser = args::count, default_value = "100k")]
    operations: u64,
    /// Bytes of each value, at least 16
    #[arg(long, value_name = "SIZE", value_parser = args::small_size, default_value = "1000")]
    value_size: u32,
    /// Client threads
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    threads: usize,
    /// Which records are touched: uniform, latest, or zipfian, also with a constant as in
    /// zipfian0.9; zipfian unless given, and always latest in d
    #[arg(long, value_name = "NAME")]
    distribution: Option<Distribution>,
    /// The length of scans; 1 to 100 at random unless given
    #[arg(long, value_name = "COUNT", value_parser = args::count)]
    scan_length: Option<u64>,
    /// The order in which keys are loaded
    #[arg(long, value_name = "ORDER", default_value = "random")]
    order: KeyOrder,
    /// Verify what is read (the default)
    #[arg(long, overrides_with = "no_verify")]
    verify: bool,
    /// Do not verify what reads and scans return; the verify phases always do
    #[arg(long)]
    no_verify: bool,
    /// Wait after each phase until the background is quiet, and count its writes to the phase
    #[arg(long)]
    settle: bool,
    /// End each phase of operations after this time, such as 60s
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    duration: Option<Duration>,
    /// Seed of the random choices
    #[arg(long, value_name = "NUMBER", default_value_t = 42)]
    seed: u64,
    /// Destroy the database in DIR before the run
    #[arg(long)]
    fresh: bool,
    /// Destroy the database after the run
    #[arg(long)]
    cleanup: bool,
    /// Write one line of figures per second to this CSV file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Check the space promise every 100 ms
    #[arg(long)]
    check_space: bool,
    /// What files may take with no data in them, for --check-space: 8 MiB and 11 memtables unless
    /// given
    #[arg(long, value_name = "SIZE", value_parser = args::size)]
    space_floor: Option<u64>,
    /// Print all figures of each phase in place of a row and a sentence
    #[arg(long, conflicts_with = "json")]
    verbose: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    engine: EngineArgs,
}

impl Ycsb {
    pub fn run(self) -> Outcome {
        let plan = self.plan()?;
        if self.fresh && self.dir.exists() {
            Db::destroy(&self.dir)?;
        }
        let trace = self
            .trace
            .as_deref()
            .map(|path| Trace::create(path, &UniKv::stall_causes()))
            .transpose()?;
        let mut runner = Runner::<UniKv>::new(&plan, self.engine.options()?, trace)?;
        let machine = Machine::inspect(&self.dir);
        let effective = runner.engine()?.db().options();
        if !self.output.json {
            print_head(&plan, &self.engine, &machine)?;
        }
        if !self.output.json && !self.verbose {
            table::print_head(&mut io::stdout().lock())?;
        }
        let mut phases = Vec::new();
        let mut failure = None;
        for phase in &plan.phases {
            match run_phase(&mut runner, phase) {
                Ok(report) => {
                    self.print_phase(phase, &report)?;
                    phases.push(report);
                }
                Err(error) => {
                    failure = Some(Failure::from(error.in_phase(&phase.label)));
                    break;
                }
            }
        }
        let summary = Summary::new(&phases, &runner.merges);
        if let Some(space) = summary.space.filter(|space| space.breaches > 0) {
            let words = summary::space_in_words(&space);
            let breach = || Failure::verification(format!("the space promise: {words}"));
            failure.get_or_insert_with(breach);
        }
        let as_json = || {
            let results = (&*phases, &summary);
            self.to_json(&plan, &machine, results, &effective, failure.as_ref())
        };
        self.output.print(as_json, |mut out| {
            if !self.verbose {
                writeln!(out)?;
                table::print_legend(&mut out)?;
            }
            summary.print(&mut out)
        })?;
        // After a failure the directory is evidence: it is kept.
        failure.map_or(Ok(()), Err)?;
        runner.close()?;
        if self.cleanup {
            Db::destroy(&self.dir)?;
        }
        Ok(Code::Success)
    }

    fn print_phase(&self, phase: &Phase, report: &PhaseReport) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match (self.output.json, self.verbose) {
            (true, _) => Ok(()),
            (_, true) => report.print(&mut out),
            (_, false) => table::print_phase(phase, report, &mut out),
        }
    }

    fn plan(&self) -> Result<Plan, Failure> {
        let phases = self
            .workload
            .split(',')
            .map(|label| Phase::parse(label.trim()));
        let phases = phases
            .collect::<Result<Vec<_>, _>>()
            .map_err(Failure::invalid)?;
        let value_bytes = self.value_size as usize;
        if value_bytes < values::HEADER_BYTES {
            return Err(Failure::invalid(
                "--value-size: at least 16, for a value to name itself",
            ));
        }
        if !(1..=versions::MAX_THREADS).contains(&self.threads) {
            let most = versions::MAX_THREADS;
            return Err(Failure::invalid(format!("--threads: from 1 to {most}")));
        }
        if self.records == 0 {
            return Err(Failure::invalid("--records: at least 1"));
        }
        if self.scan_length == Some(0) {
            return Err(Failure::invalid("--scan-length: at least 1"));
        }
        Ok(Plan {
            dir: self.dir.clone(),
            phases,
            records: self.records,
            operations: self.operations,
            values: values::Lengths::fixed(value_bytes),
            threads: self.threads,
            distribution: self.distribution,
            scan_length: self.scan_length,
            order: self.order,
            verify: self.verify || !self.no_verify,
            settle: self.settle,
            duration: self.duration,
            // Holes in the numbers of records could not be verified.
            load_duration: None,
            seed: self.seed,
            check_space: self.check_space,
            space_floor: self.space_floor,
        })
    }

    fn to_json(
        &self,
        plan: &Plan,
        machine: &Machine,
        (phases, summary): (&[PhaseReport], &Summary),
        effective: &EffectiveOptions,
        failure: Option<&Failure>,
    ) -> Value {
        json!({
            "engine": "UniKV",
            "version": env!("CARGO_PKG_VERSION"),
            "machine": machine,
            "settings": {
                "workload": self.workload,
                "records": plan.records,
                "operations": plan.operations,
                "key_bytes": keys::KEY_BYTES,
                "value_bytes": plan.values.mean(),
                "threads": plan.threads,
                "distribution": plan.distribution.map(|distribution| distribution.to_string()),
                "scan_length": plan.scan_length,
                "order": format!("{:?}", plan.order).to_lowercase(),
                "verify": plan.verify,
                "settle": plan.settle,
                "duration_seconds": plan.duration.map(|duration| duration.as_secs_f64()),
                "seed": plan.seed,
                "options": self.engine.to_json(),
                "options_in_effect": in_effect(effective),
            },
            "phases": phases,
            "summary": summary,
            "failure": failure.map(|failure| match failure {
                Failure::BrokenPipe => "broken pipe".to_owned(),
                Failure::Failed(failed) => failed.to_string(),
            }),
        })
    }
}

/// The options of the run, those of the process among them.
fn in_effect(options: &EffectiveOptions) -> Value {
    let of_process = json!({
        "durability": durability_name(options.durability),
        "background_threads": options.background_threads,
    });
    joined(options_to_json(options), of_process)
}

fn print_head(plan: &Plan, engine: &EngineArgs, machine: &Machine) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let head = format!(
        "UniKV {}: {} records of {} + {} bytes ({}), {} client threads, values {}",
        env!("CARGO_PKG_VERSION"),
        HumanCount(plan.records),
        keys::KEY_BYTES,
        plan.values.mean(),
        HumanBytes(plan.records * plan.record_bytes()),
        plan.threads,
        if plan.verify {
            "verified"
        } else {
            "NOT verified"
        },
    );
    print_folded(&mut out, "", &head)?;
    print_folded(
        &mut out,
        "",
        &format!("options: {}", options_in_words(engine)),
    )?;
    let machine = phase::machine_in_words(machine);
    print_folded(&mut out, "", &format!("machine: {machine}"))?;
    writeln!(out)
}

fn options_in_words(engine: &EngineArgs) -> String {
    let Value::Object(options) = engine.to_json() else {
        return String::new();
    };
    let given: Vec<String> = options
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| format!("{name} {}", value.to_string().trim_matches('"')))
        .collect();
    if given.is_empty() {
        "what is stored, or else the defaults".to_owned()
    } else {
        format!(
            "{}, else what is stored, or else the defaults",
            given.join(", ")
        )
    }
}

/// Runs one phase, and adds what only UniKV reports of an opening.
fn run_phase(
    runner: &mut Runner<'_, UniKv>,
    phase: &Phase,
) -> Result<PhaseReport, unikv_bench::Failure> {
    let mut report = runner.run(phase)?;
    if phase.kind == Kind::Reopen {
        let recovery = runner.engine()?.db().recovery();
        report.recovery = Some(recovery_to_json(recovery));
        report.words = Some(recovery.to_string());
    }
    report.derive();
    Ok(report)
}
