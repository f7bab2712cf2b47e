//! The whole suite at a tiny scale: experiments, processes, verification, results and page.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use std::fs;
use std::path::Path;
use unikv_bench::suite::experiments;
use unikv_bench::suite::results::{PhaseView, Results, RunResult};

/// Of every kind of step and operation at least one.
const EXPERIMENTS: &str =
    "micro,recovery,multi,absent,deletes,scan-updates,open-loop,unsorted-size,sync,warm-start";

fn run(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("unikv-bench").unwrap();
    command
        .arg("run")
        .arg("--dir")
        .arg(dir)
        .args(["--scale", "0.00001"]);
    command.args(arguments);
    command
}

fn results(dir: &Path) -> Results {
    serde_json::from_slice(&fs::read(dir.join("results/results.json")).unwrap()).unwrap()
}

fn of<'a>(results: &'a Results, experiment: &str, engine: &str) -> Vec<&'a RunResult> {
    let runs = results.runs.iter();
    runs.filter(|run| run.experiment == experiment && run.engine == engine)
        .collect()
}

#[test]
fn every_kind_of_experiment_runs_and_is_drawn() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), &["--experiments", EXPERIMENTS])
        .assert()
        .success();
    let results = results(dir.path());
    assert!(!results.limited, "no limiter was given");
    assert!(
        results
            .runs
            .iter()
            .all(|run| run.failure().is_none() && !run.cold)
    );
    for experiment in experiments::all() {
        let is_chosen = EXPERIMENTS.split(',').any(|name| name == experiment.name);
        let runs = of(&results, experiment.name, "unikv").len();
        assert_eq!(runs, if is_chosen { experiment.runs.len() } else { 0 });
    }
    // Options of UniKV are for UniKV alone; everything else is for all.
    assert!(of(&results, "unsorted-size", "btreemap").is_empty());
    let ours = of(&results, "micro", "unikv")[0].phases();
    let others = of(&results, "micro", "btreemap")[0].phases();
    assert_eq!(ours.len(), others.len());
    for (our, other) in ours.iter().zip(&others) {
        assert_eq!(
            (&our.phase, our.operations),
            (&other.phase, other.operations)
        );
    }
    assert_eq!(ours[0].operations, 1_000);
    assert!(ours[0].latencies[0].curve.len() > 10);
    assert!(ours[0].cpu_us_per_operation.unwrap() > 0.0);
    // A killed process leaves what it had reported, and its store to the next.
    let recovery = of(&results, "recovery", "unikv")[0];
    let phases: Vec<_> = recovery
        .steps
        .iter()
        .map(|step| step.phases.len())
        .collect();
    assert_eq!(phases, [1, 1]);
    assert!(recovery.steps[1].opened_seconds.unwrap() > 0.0);
    assert_eq!(of(&results, "recovery", "btreemap")[0].steps.len(), 1);

    let page = fs::read_to_string(dir.path().join("results/report.html")).unwrap();
    assert!(page.contains("NOT limited"));
    for run in &results.runs {
        assert!(page.contains(&format!("<h2 id=\"{}\">", run.experiment)));
    }
    assert!(page.matches("<svg").count() > 20);
    // It needs nothing from elsewhere: the one address is the name of what a drawing is.
    let drawings = page.matches("http://www.w3.org/2000/svg").count();
    assert_eq!(page.matches("http").count(), drawings);
    assert!(!page.contains(" src=") && !page.contains("<script"));

    let pictures = dir.path().join("pictures");
    let mut report = Command::cargo_bin("unikv-bench").unwrap();
    report.arg("report");
    report.arg(dir.path().join("results/results.json"));
    report.arg("--out").arg(dir.path().join("again.html"));
    report.arg("--pictures").arg(&pictures);
    report.assert().success();
    let names = EXPERIMENTS.split(',').map(|name| format!("{name}.svg"));
    for name in names {
        let picture = fs::read_to_string(pictures.join(&name)).unwrap();
        assert!(picture.starts_with("<svg"), "{name}");
        assert!(picture.contains("unikv"), "{name}");
        assert_eq!(
            picture.contains("btreemap"),
            name != "unsorted-size.svg",
            "{name}"
        );
    }
}

#[test]
fn what_is_too_large_or_unknown_is_not_run() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        "--experiments",
        "micro",
        "--engines",
        "unikv",
        "--most-disk",
        "1m",
    ];
    run(dir.path(), &arguments).assert().success();
    let page = fs::read_to_string(dir.path().join("results/report.html")).unwrap();
    assert!(page.contains("Left out: micro"));
    let unknown = ["--experiments", "micro,macro"];
    run(dir.path(), &unknown).assert().failure();
}

#[test]
fn runs_are_chosen_by_their_label_and_end_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let rows = ["--experiments", "micro,rows", "--runs", "4 threads"];
    let ours = ["--engines", "unikv", "--longest-phase", "1s"];
    run(dir.path(), &[rows, ours].concat()).assert().success();
    let results = results(dir.path());
    let labels: Vec<_> = results.runs.iter().map(|run| &run.run).collect();
    assert_eq!(labels, ["4 threads"]);
    assert_eq!(results.runs[0].asked.longest_phase_seconds, Some(1));
    let page = fs::read_to_string(dir.path().join("results/report.html")).unwrap();
    assert!(page.contains("phases longer than 1 s"));
    run(dir.path(), &["--runs", "5 threads"]).assert().failure();
}

#[test]
fn what_was_measured_of_a_commit_is_not_measured_again_and_what_hangs_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let ours = ["--experiments", "micro", "--engines", "unikv"];
    let measure = |more: &[&str]| {
        // Ended runs are failures.
        let _ = run(dir.path(), &[&ours[..], more].concat()).assert();
        let results = results(dir.path());
        assert_eq!(results.runs.len(), 1);
        let run = &results.runs[0];
        (
            run.failure().map(str::to_owned),
            run.steps[0].opened_seconds,
        )
    };
    let first = measure(&["--commit", "one"]);
    assert!(first.0.is_none() && first == measure(&["--commit", "one"]));
    let second = measure(&["--commit", "two"]);
    assert_ne!(first.1, second.1);
    assert_ne!(second.1, measure(&["--commit", "two", "--seed", "7"]).1);
    let unnamed = measure(&["--commit", "two-dirty"]);
    assert_ne!(unnamed.1, measure(&["--commit", "two-dirty"]).1);
    let (failure, _) = measure(&["--commit", "three", "--longest-step", "1ms"]);
    assert!(failure.unwrap().starts_with("ended after 1ms"));
}

#[test]
fn what_was_measured_of_a_commit_stays_beside_what_is_measured_next() {
    let dir = tempfile::tempdir().unwrap();
    let measured = |experiments: &str, more: &[&str]| {
        let fixed = ["--engines", "unikv", "--experiments", experiments];
        run(dir.path(), &[&fixed[..], more].concat())
            .assert()
            .success();
        let results = results(dir.path());
        let runs = results.runs.iter();
        runs.map(|run| (run.experiment.clone(), run.steps[0].opened_seconds))
            .collect::<Vec<_>>()
    };
    let micro = measured("micro", &["--commit", "one"]);
    let both = measured("recovery", &["--commit", "one"]);
    assert_eq!((both.len(), both[0].0.as_str()), (2, "recovery"));
    assert_eq!(both[1], micro[0]);
    let page = fs::read_to_string(dir.path().join("results/report.html")).unwrap();
    assert!(page.contains("id=\"micro\"") && page.contains("id=\"recovery\""));
    assert_eq!(measured("multi", &["--commit", "two"]).len(), 1);
}

#[test]
fn clients_beside_a_phase_keep_their_pace_until_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let living = ["--experiments", "living", "--runs", "10 k/s short"];
    let ours = ["--engines", "unikv", "--longest-phase", "2s"];
    run(dir.path(), &[living, ours].concat()).assert().success();
    let results = results(dir.path());
    let phases = results.runs[0].phases();
    let beside = phases.iter().filter_map(|phase| phase.beside.as_ref());
    let beside: Vec<_> = beside
        .map(|it| (&it.phase[..], it.operations_per_second))
        .collect();
    assert_eq!(beside.len(), 4);
    for (phase, rate) in beside {
        assert_eq!(phase, "update~10k");
        // No more than was due; how much less depends on the machine.
        assert!(rate > 0.0 && rate < 11_000.0, "{rate}");
    }
    let operations = |phase: &PhaseView| phase.latencies.iter().map(|it| it.count).sum::<u64>();
    assert!(
        phases
            .iter()
            .all(|phase| operations(phase) == phase.operations)
    );
}

#[test]
fn the_fewest_reads_are_reported_for_one_thread() {
    let mut command = Command::cargo_bin("unikv-bench").unwrap();
    let tiny = ["floor", "--scale", "0.00001", "--memory", "100k"];
    command.args(tiny).args(["--read-us", "34"]);
    let printed = command.assert().success().get_output().stdout.clone();
    let printed = String::from_utf8(printed).unwrap();
    assert!(printed.starts_with("1 thread: memory for 100 records, 34 µs a read"));
    assert!(printed.contains("\nmix50:uniform ") && !printed.contains("4 threads"));
    let mut command = Command::cargo_bin("unikv-bench").unwrap();
    let unlimited = ["floor", "--experiment", "in-memory", "--read-us", "34"];
    command.args(unlimited).assert().failure();
}
