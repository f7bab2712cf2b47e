//! How hard garbage presses, and what counts as garbage of a file.

/// How hard space presses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// Much of the allowed garbage is there: reclaim if a merge passes by anyway.
    Riding,
    /// More of it is there: reclaim now. The rest is for what a pass writes before it can release
    /// its victims, and for what is deleted meanwhile.
    Alone,
}

impl Pressure {
    /// The share of the allowed garbage at which reclaiming begins.
    pub(crate) fn share(self) -> f64 {
        match self {
            Pressure::Riding => 0.4,
            Pressure::Alone => 0.6,
        }
    }
}
