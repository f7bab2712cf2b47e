//! How long values live.

use crate::engine::read::ReadState;
use crate::engine::read::source::Source;
use crate::error::Result;
use std::time::Duration;

/// How long a value lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ttl {
    /// It never expires.
    Never,
    /// It expires when this has passed, which is more than nothing.
    Remaining(Duration),
}

impl Ttl {
    /// What is left; `None`: the value never expires.
    pub fn remaining(self) -> Option<Duration> {
        match self {
            Ttl::Never => None,
            Ttl::Remaining(left) => Some(left),
        }
    }
}

impl ReadState {
    /// When the value of `key` expires, if it does; the outer `None`: there is none.
    pub(crate) fn expiry(&self, source: Source, key: &[u8]) -> Result<Option<Option<u64>>> {
        let point = self.point(source)?;
        self.find(&point, key, |_, _, found| Ok(found.expiry_ms))
    }

    /// How long the value of `key` lives from the time of the read on.
    pub(crate) fn ttl(&self, source: Source, key: &[u8]) -> Result<Option<Ttl>> {
        let mut point = self.point(source)?;
        // Of one moment: what is there has something left.
        point.at = point.at.fixed(&self.core.clock);
        let expiry = self.find(&point, key, |_, _, found| Ok(found.expiry_ms))?;
        Ok(expiry.map(|expiry_ms| match expiry_ms {
            None => Ttl::Never,
            Some(ms) => {
                let left = ms.saturating_sub(point.at.time_ms(&self.core.clock));
                Ttl::Remaining(Duration::from_millis(left))
            }
        }))
    }
}
