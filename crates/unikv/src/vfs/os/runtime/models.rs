//! Events under loom: no wake-up is lost, whatever runs between the test of a condition and the
//! wait.

use super::*;
use crate::base::sync::atomic::AtomicBool;
use crate::testing::loom_model::{fails, holds};
use crate::vfs::wait_until;
use loom::thread;

/// One thread waits for what two others bring about. A wake-up that is lost is a deadlock.
fn waiter_beside_notifiers() {
    let event = Arc::new(OsEvent::default());
    let done = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let notifiers: Vec<_> = (0..2)
        .map(|i| {
            let (event, done) = (Arc::clone(&event), Arc::clone(&done));
            thread::spawn(move || {
                // What the event is to report is seen by a thread that sees it.
                done[i].store(true, Ordering::Relaxed);
                event.notify();
            })
        })
        .collect();
    wait_until(&*event, || {
        done.iter().all(|done| done.load(Ordering::Relaxed))
    });
    for notifier in notifiers {
        notifier.join().unwrap();
    }
    assert_eq!(event.epoch(), 2);
}

#[test]
fn no_wake_up_is_lost() {
    holds(waiter_beside_notifiers);
    fails(Weakness::EventLock, waiter_beside_notifiers);
}
