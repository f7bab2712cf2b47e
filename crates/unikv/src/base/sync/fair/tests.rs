use super::*;
use std::thread;

#[test]
fn who_waits_comes_before_who_takes_it_again() {
    let fair = FairMutex::new(Vec::new());
    thread::scope(|scope| {
        for round in 0..100 {
            let mut held = fair.lock();
            let waits = scope.spawn(|| fair.lock().push("waited"));
            while fair.gate.try_lock().is_some() {
                thread::yield_now();
            }
            assert!(fair.try_lock().is_none());
            held.push("released");
            drop(held);
            let both = 2 * (round + 1);
            assert_eq!(fair.lock().len(), both, "taken again before who waited");
            waits.join().unwrap();
        }
    });
}
