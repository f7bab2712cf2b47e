//! Counts of events.

use super::kinds::KINDS;

/// Counts of events, by which a test sees that histories reach all kinds.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) decisions: u64,
    /// Jobs that began, by their places in [`KINDS`].
    pub(super) begun: [u64; KINDS.len()],
    pub(super) failed: u64,
    pub(super) given_up: u64,
    /// Jobs that found nothing to do after all.
    pub(super) vain: u64,
    /// Jobs that merge several partitions.
    pub(super) together: u64,
    /// Times at which all workers slept until a pause ended or a job became due.
    pub(super) rests: u64,
}

impl Counts {
    pub(super) fn add(&mut self, other: &Counts) {
        self.decisions += other.decisions;
        let begun = self.begun.iter_mut().zip(other.begun);
        begun.for_each(|(sum, more)| *sum += more);
        self.failed += other.failed;
        self.given_up += other.given_up;
        self.vain += other.vain;
        self.together += other.together;
        self.rests += other.rests;
    }
}
