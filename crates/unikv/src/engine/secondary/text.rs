//! The figures of a secondary as text, for a person to read.

use super::SecondaryStats;
use crate::base::text::{Count, Size, line};
use std::fmt;

impl fmt::Display for SecondaryStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seq, lag) = (Count(self.seq), Count(self.lag));
        line(
            f,
            "writes",
            format_args!("up to number {seq}; {lag} more since"),
        )?;
        let writer = if self.has_writer {
            "has the database open"
        } else {
            "is none"
        };
        let age = self.age.as_secs_f64();
        line(f, "writer", format_args!("{writer}, {age:.1} s ago"))?;
        let bytes = self.partitions.iter().map(|it| it.data_bytes).sum();
        let (data, partitions) = (Size(bytes), self.partitions.len());
        line(
            f,
            "data",
            format_args!("{data} in {partitions} partitions, without what is in memtables"),
        )?;
        line(f, "memory", &self.memory)?;
        match &self.error {
            Some(error) => line(f, "FAILED", error),
            None => Ok(()),
        }
    }
}
