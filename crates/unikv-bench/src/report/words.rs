//! What a phase shows, in a sentence.

use crate::report::phase::PhaseReport;
use crate::workload::phases::{Kind, Mix, Phase};
use indicatif::HumanCount;

/// What the phase did and what came of it.
pub(crate) fn sentence(phase: &Phase, report: &PhaseReport) -> String {
    let n = HumanCount(report.operations);
    match phase.kind {
        Kind::Load => format!("{n} records inserted{}.", writes(report)),
        Kind::Delete => format!("{n} records deleted{}.", writes(report)),
        Kind::Mix(mix) => mixed(mix, report),
        Kind::Reopen => match &report.words {
            Some(words) => format!("Closed and {words}."),
            None => "Closed and opened again.".to_owned(),
        },
        Kind::VerifyScan => "A scan of all returned each key once, with its last value.".to_owned(),
        Kind::VerifyGets => "A get of each record returned its last value.".to_owned(),
        Kind::Verify => {
            "A scan of all and a get of each record returned what was last acknowledged.".to_owned()
        }
        Kind::Settle => match report.write_amplification_until_quiet {
            Some(factor) => format!(
                "The background had no more to do; since it last had not, each byte of the \
                 clients was written {factor:.2} times.",
            ),
            None => "The background had no more to do.".to_owned(),
        },
        Kind::Pause(_) => "Nobody read or wrote.".to_owned(),
        Kind::DropCache => "The page cache holds nothing of the database now.".to_owned(),
        Kind::Flush => "All records are in tables now.".to_owned(),
        Kind::Compact => "All records are in the SortedStore now.".to_owned(),
        Kind::Die => "The process ends.".to_owned(),
    }
}

fn mixed(mix: Mix, report: &PhaseReport) -> String {
    let shares = [
        (mix.read, "reads"),
        (mix.read_absent, "reads of absent keys"),
        (mix.multi_get, "reads of many at once"),
        (mix.scan, "scans"),
        (mix.update, "updates"),
        (mix.insert, "inserts"),
        (mix.read_modify_write, "reads with a write"),
        (mix.batch, "batches of updates"),
    ];
    let shares = shares.into_iter().filter(|(share, _)| *share > 0);
    let shares: Vec<_> = shares
        .map(|(share, of)| format!("{share} % {of}"))
        .collect();
    let mut words = shares.join(", ");
    if let Some(distribution) = &report.distribution {
        words.push_str(&format!(" ({distribution})"));
    }
    if report.scanned_records > 0 {
        let rate = report.scanned_records as f64 / report.seconds.max(1e-9);
        words.push_str(&format!("; {} records/s scanned", HumanCount(rate as u64)));
    }
    match report.engine_read_bytes_per_operation {
        Some(bytes) if bytes < 1.0 => words.push_str("; all that was read was in memory"),
        Some(bytes) => {
            let bytes = HumanCount(bytes as u64);
            words.push_str(&format!("; {bytes} bytes read from files for each"));
        }
        None => {}
    }
    if report.misses > 0 {
        let misses = HumanCount(report.misses);
        words.push_str(&format!("; {misses} found nothing"));
    }
    if let Some(beside) = &report.beside {
        let rate = HumanCount(beside.operations_per_second as u64);
        words.push_str(&format!("; beside {rate}/s of {}", beside.phase));
    }
    format!("{words}{}.", writes(report))
}

/// What writing came to.
fn writes(report: &PhaseReport) -> String {
    let Some(factor) = report.write_amplification else {
        return String::new();
    };
    let costs = &report.costs;
    let waited = match costs.stalls {
        0 => "no writer waited for the background".to_owned(),
        _ => format!(
            "writers waited {:.0} ms in all for the background",
            costs.stall_ms
        ),
    };
    format!("; the engine wrote {factor:.2} bytes for each of the clients', and {waited}")
}
