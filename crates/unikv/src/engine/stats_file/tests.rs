use super::PublishedStats;
use crate::engine::tests::{Machine, small};
use crate::vfs::Runtime as _;
use crate::vfs::sim::{Fault, Op};
use crate::{Db, ErrorKind, Event};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const STATS: &str = "/db/STATS";

fn let_pass(runtime: &crate::vfs::sim::SimRuntime, time: Duration) {
    let never = runtime.event();
    never.wait_past(never.epoch(), Some(time));
}

fn published(machine: &Machine) -> Option<PublishedStats> {
    let bytes = machine.disk.read_file(Path::new(STATS))?;
    Some(PublishedStats::decode(&bytes, Path::new(STATS)).unwrap())
}

#[test]
fn the_file_is_replaced_each_interval_and_gone_when_the_database_is_closed() {
    let machine = Machine::new(1);
    let (db, runtime) = machine.open(small().publish_stats(SECOND));
    db.put("a", "1").unwrap();
    assert!(
        published(&machine).is_none(),
        "before the interval has passed"
    );
    let_pass(&runtime, SECOND + SECOND / 2);
    let first = published(&machine).unwrap();
    assert_eq!(
        (first.published, first.stats.puts, first.interval),
        (1, 1, SECOND)
    );
    assert!(first.open_for >= SECOND && !first.stats.partitions.is_empty());
    db.put("b", "2").unwrap();
    let_pass(&runtime, 3 * SECOND);
    let later = published(&machine).unwrap();
    assert_eq!((later.published, later.stats.puts), (4, 2));
    // A killed process leaves it, and the next opening removes it.
    let killed = Machine {
        disk: machine.disk.process_kill(),
        seed: 2,
    };
    killed.disk.write_file(Path::new("/db/STATS.tmp"), b"half");
    assert!(published(&killed).is_some());
    let (reopened, _) = killed.open(small());
    assert!(published(&killed).is_none());
    let mut swept = reopened.recovery().swept.clone();
    swept.retain(|name| name.starts_with("STATS"));
    assert_eq!(swept, ["STATS", "STATS.tmp"]);
    db.close().unwrap();
    assert!(published(&machine).is_none());
    machine.check();
}

#[test]
fn figures_that_cannot_be_written_are_an_event_and_nothing_else() {
    let machine = Machine::new(2);
    let errors = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&errors);
    let options = small()
        .publish_stats(SECOND)
        .listener(move |event: &Event| {
            if let Event::StatsNotPublished { error } = event {
                heard.lock().unwrap().push(error.clone());
            }
        });
    let (db, runtime) = machine.open(options);
    let refuse = |op: Op| {
        machine.disk.set_fault(Box::new(move |call| {
            let is_stats = call.path.to_string_lossy().contains("STATS");
            if is_stats && call.op == op {
                Fault::Fail(std::io::ErrorKind::StorageFull)
            } else {
                Fault::None
            }
        }));
    };
    for (nth, op) in [Op::Create, Op::Append, Op::Rename].into_iter().enumerate() {
        refuse(op);
        let_pass(&runtime, 5 * SECOND);
        db.put("key", "value").unwrap();
        assert!(!db.stats().disk_full);
        let heard = errors.lock().unwrap().clone();
        assert_eq!(heard.len(), nth + 1, "once until it succeeds: {heard:?}");
        assert!(heard[nth].to_string().contains("STATS"), "{}", heard[nth]);
        let left = machine.disk.read_file(Path::new("/db/STATS.tmp"));
        assert!(left.is_none(), "{op:?}");
        machine.disk.clear_faults();
        let_pass(&runtime, 2 * SECOND);
        assert_eq!(published(&machine).unwrap().stats.puts, nth as u64 + 1);
    }
    db.close().unwrap();
}

#[test]
fn an_interval_that_would_keep_a_thread_busy_is_refused() {
    let machine = Machine::new(3);
    let options = small().publish_stats(Duration::ZERO);
    let refused = Db::open("/db", options.env(machine.env())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.to_string().contains("publish_stats"), "{refused}");
}
