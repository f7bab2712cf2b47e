//! The file `STATS`: two lines of JSON, of which the first says what the second is.
//!
//! ```text
//! {"unikv_stats":1,"crc32c":"0a1b2c3d","bytes":5678}
//! {"pid":4711,…}
//! ```

use crate::base::checksum::Crc;
use crate::base::file_names::STATS;
use crate::engine::stats::Stats;
use crate::engine::stats::holders::DueJob;
use crate::error::{Error, Result};
use crate::vfs::os;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use std::time::Duration;

/// The version of the format. A reader ignores names that it does not know, so it changes only
/// where what there was means something else.
const VERSION: u32 = 1;

/// A file is no larger.
const MOST_BYTES: u64 = 256 << 20;

/// The figures of a database that another process has open, as it has published them last: see
/// [`Options::publish_stats`](crate::Options::publish_stats).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct PublishedStats {
    /// The process that has the database open.
    pub pid: u32,
    /// How often it publishes. Figures that are older than several times this are of a process that
    /// has ended or hangs.
    pub interval: Duration,
    /// How often it has published.
    pub published: u64,
    /// How long it has had the database open: since then counters count.
    pub open_for: Duration,
    /// The option `partition_bytes` in effect.
    pub partition_bytes: u64,
    /// The option `unsorted_bytes` in effect.
    pub unsorted_bytes: u64,
    /// The option `max_space_amp` in effect.
    pub max_space_amp: f64,
    /// Bytes of garbage in value logs.
    pub dead_bytes: u64,
    /// Bytes of garbage that `max_space_amp` allows.
    pub allowed_dead_bytes: u64,
    /// The most urgent job of each kind that is due and does not run, in the order in which the
    /// background takes them.
    pub due_jobs: Vec<DueJob>,
    /// The figures.
    pub stats: Stats,
    /// How old the file was when it was read, by the clock of its file system.
    #[serde(skip)]
    pub age: Duration,
}

#[derive(Serialize, Deserialize)]
struct Header {
    unikv_stats: u32,
    crc32c: String,
    bytes: usize,
}

fn checksum(body: &[u8]) -> String {
    format!("{:08x}", Crc::default().update(body).raw())
}

impl PublishedStats {
    /// What the process that has the database in `dir` open has published last; `None`: nothing is
    /// there. Neither the database nor its lock is touched.
    ///
    /// # Errors
    /// `Corruption` if the file is torn or damaged: it is replaced with the next figures.
    /// `Incompatible` if a newer release has written it. `Io`.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("unikv-published-{}", std::process::id()));
    /// use std::time::Duration;
    /// use unikv::{Db, Options, PublishedStats};
    ///
    /// let db = Db::open(&dir, Options::default().publish_stats(Duration::from_millis(10)))?;
    /// db.put("key", "value")?;
    /// // Commonly in another process:
    /// let published = loop {
    ///     match PublishedStats::read(&dir)? {
    ///         Some(published) if published.stats.puts > 0 => break published,
    ///         _ => std::thread::sleep(Duration::from_millis(1)),
    ///     }
    /// };
    /// assert_eq!(published.pid, std::process::id());
    /// db.close()?;
    /// assert!(PublishedStats::read(&dir)?.is_none());
    /// # Db::destroy(&dir)?;
    /// # unikv::Result::Ok(())
    /// ```
    pub fn read(dir: impl AsRef<Path>) -> Result<Option<PublishedStats>> {
        let path = dir.as_ref().join(STATS);
        let (bytes, age) = match os::read_with_age(&path, MOST_BYTES) {
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("read the published figures", &path, e)),
        };
        let decoded = PublishedStats::decode(&bytes, &path)?;
        Ok(Some(PublishedStats { age, ..decoded }))
    }

    /// The content of the file.
    pub(super) fn encode(&self) -> Vec<u8> {
        // Maps with keys that are no strings are all that cannot be written, and there are none.
        let body = serde_json::to_vec(self).unwrap_or_default();
        let header = Header {
            unikv_stats: VERSION,
            crc32c: checksum(&body),
            bytes: body.len(),
        };
        let mut bytes = serde_json::to_vec(&header).unwrap_or_default();
        bytes.push(b'\n');
        bytes.extend_from_slice(&body);
        bytes.push(b'\n');
        bytes
    }

    /// Reads the content of the file at `path`.
    pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<PublishedStats> {
        let damaged = |at: usize, what: &str| Error::corruption(path, at as u64, what);
        let line_end = bytes.iter().position(|byte| *byte == b'\n');
        let end = line_end.ok_or_else(|| damaged(0, "the first line does not end"))?;
        let header: Header = serde_json::from_slice(&bytes[..end])
            .map_err(|_| damaged(0, "the first line is none of published figures"))?;
        if header.unikv_stats != VERSION {
            let what = format!("figures in format {}, not {VERSION}", header.unikv_stats);
            let remedy = "use the release that has the database open";
            return Err(Error::incompatible(path, what, remedy));
        }
        let begin = end + 1;
        let body = bytes.get(begin..begin.saturating_add(header.bytes));
        let body = body.ok_or_else(|| damaged(begin, "the figures are cut"))?;
        if checksum(body) != header.crc32c {
            return Err(damaged(begin, "the checksum of the figures does not fit"));
        }
        serde_json::from_slice(body)
            .map_err(|e| damaged(begin + e.column(), &format!("the figures: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::engine::stats::PartitionStats;
    use crate::events::StallCause;
    use crate::{LatencyStats, StallStats};

    fn example() -> PublishedStats {
        let mut published = PublishedStats {
            pid: 7,
            interval: Duration::from_millis(1500),
            ..PublishedStats::default()
        };
        let stats = &mut published.stats;
        stats.puts = u64::MAX;
        stats.index_utilisation = 0.75;
        stats.partitions = vec![PartitionStats {
            start: vec![0, 255, b'"'],
            end: Some(vec![1]),
            ..PartitionStats::default()
        }];
        stats.stall_causes = vec![StallStats {
            cause: StallCause::MergeWait,
            count: 2,
            time: Duration::from_nanos(3),
            longest: Duration::from_nanos(2),
        }];
        stats.latencies = vec![LatencyStats::default()];
        published
    }

    #[test]
    fn what_is_written_is_read_and_no_damage_of_it_is() {
        let path = Path::new("STATS");
        let bytes = example().encode();
        let read = PublishedStats::decode(&bytes, path).unwrap();
        assert_eq!(format!("{read:?}"), format!("{:?}", example()));
        for at in 0..bytes.len() - 1 {
            for change in [1, 0x20, 0x80] {
                let mut damaged = bytes.clone();
                damaged[at] ^= change;
                if let Ok(read) = PublishedStats::decode(&damaged, path) {
                    // Digits of a checksum in the other case are the same, and so on.
                    assert_eq!(format!("{read:?}"), format!("{:?}", example()), "{at}");
                }
            }
            let error = PublishedStats::decode(&bytes[..at], path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{at}");
        }
    }

    #[test]
    fn a_newer_format_is_refused_and_a_new_figure_is_ignored() {
        let path = Path::new("STATS");
        let newer = b"{\"unikv_stats\":2,\"crc32c\":\"\",\"bytes\":0}\n";
        let error = PublishedStats::decode(newer, path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incompatible);
        let body = br#"{"pid":3,"a new figure":[1],"stats":{"puts":4,"another":{}}}"#;
        let sum = checksum(body);
        let mut bytes = format!(
            "{{\"unikv_stats\":1,\"crc32c\":\"{sum}\",\"bytes\":{}}}\n",
            body.len()
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        let read = PublishedStats::decode(&bytes, path).unwrap();
        assert_eq!((read.pid, read.stats.puts, read.stats.gets), (3, 4, 0));
    }
}
