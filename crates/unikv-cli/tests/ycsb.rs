//! Tiny runs of `ycsb` and of the two halves of the kill test.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::FileExt;
use tempfile::TempDir;

const ALL: &str = "load,a,b,c,d,e,f,update,insert@200,scan,scan50,settle,flush,compact,reopen,\
                   c:uniform,verify,verify-scan,verify-gets";

fn unikv(dir: &TempDir, command: &str, arguments: &[&str]) -> Command {
    let mut all = Command::cargo_bin("unikv").unwrap();
    all.arg(command).arg(dir.path().join("db")).args(arguments);
    all
}

fn report(command: &mut Command) -> Value {
    let output = command.assert().success().get_output().stdout.clone();
    serde_json::from_slice(&output).unwrap()
}

#[test]
fn every_phase_runs_and_verifies() {
    for (threads, order, memtable) in [("1", "random", "64KiB"), ("4", "sequential", "64KiB")] {
        let dir = tempfile::tempdir().unwrap();
        let report = report(&mut unikv(
            &dir,
            "ycsb",
            &[
                "--workload",
                ALL,
                "--records",
                "2k",
                "--operations",
                "1k",
                "--value-size",
                "200",
                "--threads",
                threads,
                "--order",
                order,
                "--memtable-bytes",
                memtable,
                "--json",
                "--settle",
            ],
        ));
        assert_eq!(report["failure"], Value::Null);
        let phases = report["phases"].as_array().unwrap();
        let names: Vec<_> = phases
            .iter()
            .map(|phase| phase["phase"].as_str().unwrap())
            .collect();
        assert_eq!(names.join(","), ALL);
        assert_eq!(phases[0]["operations"], 2_000);
        assert_eq!(phases[1]["operations"], 1_000);
        assert_eq!(phases[1]["distribution"], "zipfian");
        assert_eq!(phases[4]["distribution"], "latest");
        assert_eq!(phases[15]["distribution"], "uniform");
        let kinds = |phase: &Value| {
            let latencies = phase["latencies"].as_array().unwrap();
            let names = latencies.iter().map(|l| l["operation"].as_str().unwrap());
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(kinds(&phases[1]), "read update");
        assert_eq!(kinds(&phases[5]), "insert scan");
        assert_eq!(kinds(&phases[6]), "read read_modify_write");
        assert!(phases[1]["write_amplification"].as_f64().unwrap() >= 1.0);
        assert!(phases[14]["recovery"].is_object());
        assert_eq!(report["settings"]["options"]["memtable_bytes"], 65_536);
        assert!(report["machine"]["cores"].as_u64().unwrap() > 0);
        // The full scan sees what was loaded and what d, e and insert added.
        let scanned = phases[17]["scanned_records"].as_u64().unwrap();
        assert!(scanned >= 2_200, "{scanned}");
        assert_eq!(phases[18]["operations"].as_u64(), Some(scanned));
    }
}

#[test]
fn deleted_records_stay_away_until_they_are_put_again() {
    for threads in ["1", "4"] {
        let dir = tempfile::tempdir().unwrap();
        let workload = "p0,p1,delete@700,c:uniform,scan20:uniform,verify,settle,a,b,d,e@200,f,reopen,\
                        verify,delete@2000,verify";
        let arguments = [
            "--workload",
            workload,
            "--records",
            "2k",
            "--operations",
            "1k",
            "--value-size",
            "200",
            "--threads",
            threads,
            "--memtable-bytes",
            "64KiB",
            "--unsorted-bytes",
            "256KiB",
            "--partition-bytes",
            "128KiB",
            "--key-table-bytes",
            "8KiB",
            "--check-space",
            "--json",
        ];
        let report = report(&mut unikv(&dir, "ycsb", &arguments));
        let phases = report["phases"].as_array().unwrap();
        assert_eq!(phases[1]["operations"], 2_000);
        assert_eq!(phases[2]["operations"], 700);
        assert!(phases[3]["misses"].as_u64().unwrap() > 200, "{report}");
        assert_eq!(phases[5]["scanned_records"], 1_300);
        assert_eq!(phases[5]["misses"], 700);
        let live = phases[13]["live_bytes"].as_u64().unwrap();
        let scanned = phases[13]["scanned_records"].as_u64().unwrap();
        assert_eq!(live, scanned * 224);
        assert!(scanned > 1_300, "{scanned}");
        assert!(phases[15]["scanned_records"].as_u64().unwrap() <= scanned - 1_000);
        let summary = &report["summary"];
        assert!(summary["splits"].as_u64().unwrap() > 0, "{report}");
        assert!(summary["space"]["samples"].is_u64(), "{report}");
        assert_eq!(summary["space"]["breaches"], 0, "{report}");
    }
}

const TORTURE: [&str; 12] = [
    "--threads",
    "3",
    "--keys",
    "6k",
    "--memtable-bytes",
    "256KiB",
    "--unsorted-bytes",
    "1MiB",
    "--partition-bytes",
    "4MiB",
    "--key-table-bytes",
    "64KiB",
];

#[test]
fn the_endurance_test_runs_and_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let expect = dir.path().join("expect");
    let torture = |minutes: &str, expect: bool| {
        let mut command = unikv(&dir, "torture", &TORTURE);
        command.args(["--minutes", minutes, "--no-check-space"]);
        if expect {
            command.arg("--expect").arg(dir.path().join("expect"));
        }
        command
    };
    let output = torture("0.05", true).assert().success();
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    assert!(text.contains("0 writes without a note"), "{text}");
    assert!(text.contains(" 0 problems"), "{text}");
    // At least the release at the end.
    assert!(text.contains(" releases of views"), "{text}");
    assert!(!text.contains(" 0 releases"), "{text}");
    torture("0.02", true).assert().success();
    torture("0", true).assert().success();
    // Without the file nothing is known of what is there.
    torture("0.02", false).assert().code(3);
    // A note of a write that was never made.
    let file = fs::OpenOptions::new().read(true).write(true).open(expect);
    let (file, mut version) = (file.unwrap(), [0; 4]);
    file.read_exact_at(&mut version, 32).unwrap();
    version[3] ^= 1;
    file.write_all_at(&version, 32).unwrap();
    torture("0", true).assert().code(10);
}

#[test]
fn more_deletes_than_records_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["--workload", "load,delete@501", "--records", "500"];
    unikv(&dir, "ycsb", &arguments).assert().code(3);
}

#[test]
fn a_second_process_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let run = |workload: &str| {
        let arguments = [
            "--workload",
            workload,
            "--records",
            "500",
            "--operations",
            "500",
        ];
        unikv(&dir, "ycsb", &arguments)
    };
    run("load").assert().success();
    let output = run("a,c,verify")
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let text = String::from_utf8(output).unwrap();
    assert!(
        text.contains("machine: ") && text.contains("low second"),
        "{text}"
    );
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{widest:?} columns: {text}");
    assert!(
        text.contains("returned what was last acknowledged."),
        "{text}"
    );
    let output = run("c").arg("--verbose").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("operations/s"), "{text}");
    run("load").arg("--cleanup").assert().success();
    run("c").assert().code(8);
}

#[test]
fn foreign_and_missing_records_fail_the_verification() {
    let dir = tempfile::tempdir().unwrap();
    let run = |workload: &str| {
        unikv(
            &dir,
            "ycsb",
            &[
                "--workload",
                workload,
                "--records",
                "50",
                "--order",
                "sequential",
            ],
        )
    };
    run("load").assert().success();
    unikv(&dir, "put", &["user00000000000000000007x", "foreign"])
        .assert()
        .success();
    for workload in ["verify-scan", "verify"] {
        let stderr = run(workload).assert().code(10).get_output().stderr.clone();
        assert!(
            String::from_utf8(stderr)
                .unwrap()
                .contains("user00000000000000000007x")
        );
    }
    run("verify-gets").assert().success();
    unikv(&dir, "del", &["user00000000000000000007x"])
        .assert()
        .success();
    run("verify").assert().success();
    unikv(&dir, "del", &["user00000000000000000049"])
        .assert()
        .success();
    for workload in ["verify-scan", "verify-gets"] {
        let stderr = run(workload).assert().code(10).get_output().stderr.clone();
        assert!(String::from_utf8(stderr).unwrap().contains("record 49 "));
    }
    unikv(&dir, "put", &["user00000000000000000049", "another value"])
        .assert()
        .success();
    let stderr = run("verify-gets")
        .assert()
        .code(10)
        .get_output()
        .stderr
        .clone();
    assert!(
        String::from_utf8(stderr)
            .unwrap()
            .contains("a value of 13 bytes")
    );
}

#[test]
fn traces_and_deadlines() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace.csv");
    let mut run = unikv(
        &dir,
        "ycsb",
        &[
            "--workload",
            "load,c",
            "--records",
            "100",
            "--operations",
            "1g",
            "--duration",
            "50ms",
        ],
    );
    let report = report(run.arg("--json").arg("--trace").arg(&trace));
    assert!(report["phases"][1]["operations"].as_u64().unwrap() < 1_000_000_000);
    let text = fs::read_to_string(trace).unwrap();
    let operations: u64 = text
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(2).unwrap().parse::<u64>().unwrap())
        .sum();
    let reported: u64 = [0, 1]
        .iter()
        .map(|&i| report["phases"][i]["operations"].as_u64().unwrap())
        .sum();
    assert_eq!(operations, reported);
}

#[test]
fn the_kill_test_sees_what_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let acks = dir.path().join("acks");
    let acks_name = acks.to_str().unwrap();
    let write = [
        "--ack-file",
        acks_name,
        "--threads",
        "2",
        "--operations",
        "6000",
    ];
    unikv(&dir, "crash-writer", &write).assert().success();
    let verify = || unikv(&dir, "crash-verify", &["--ack-file", acks_name]);
    verify().assert().success();

    // One operation more than acknowledged is fine, two are not: here the last of thread 1 is
    // taken to be unacknowledged, then the one before it too.
    let file = fs::OpenOptions::new().write(true).open(&acks).unwrap();
    file.write_all_at(&5_999_u64.to_le_bytes(), 8).unwrap();
    verify().assert().success();
    file.write_all_at(&5_990_u64.to_le_bytes(), 8).unwrap();
    verify().assert().code(10);
    // An acknowledged write that is not there.
    file.write_all_at(&6_010_u64.to_le_bytes(), 8).unwrap();
    let stdout = verify().assert().code(10).get_output().stdout.clone();
    assert!(String::from_utf8(stdout).unwrap().contains("LOSS"));
}
