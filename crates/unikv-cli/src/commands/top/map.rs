//! The partitions of a frame as a map: a character for each.

use super::frame::{Frame, Row, Tone, part};
use indicatif::HumanBytes;
use unikv::PartitionStats;

/// How near a partition is to its split.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

impl Frame<'_> {
    /// A character for each partition in key order, as high as it is near to its split; its colour
    /// is how full its UnsortedStore is. Where there are more than fit, each stands for several.
    pub(super) fn map(&self, rows: usize) -> Vec<Row> {
        let partitions = &self.now.stats.partitions;
        if rows < 2 || partitions.is_empty() || self.columns == 0 {
            return Vec::new();
        }
        let heads = self.legend();
        // Where there is little room it is the map's.
        let heads = &heads[..heads.len().min(rows / 2)];
        let room = (rows - heads.len()) * self.columns;
        let each = partitions.len().div_ceil(room);
        let of = |group: &[PartitionStats]| {
            let most = |of: &dyn Fn(&PartitionStats) -> u64| group.iter().map(of).max();
            let data = most(&|p| p.data_bytes).unwrap_or(0);
            let unsorted = most(&|p| p.unsorted_bytes).unwrap_or(0);
            let fill = part(data, self.now.partition_bytes);
            let level = (fill * LEVELS.len() as f64) as usize;
            let level = LEVELS.get(level.min(LEVELS.len() - 1)).copied();
            let tone = Tone::of_fill(part(unsorted, self.now.unsorted_bytes));
            (level.unwrap_or(' ').to_string(), tone)
        };
        let cells: Vec<_> = partitions.chunks(each).map(of).collect();
        let mut all: Vec<Row> = heads
            .iter()
            .map(|head| vec![(head.clone(), Tone::Head)])
            .collect();
        if let Some((head, _)) = all
            .first_mut()
            .and_then(|row| row.first_mut())
            .filter(|_| each > 1)
        {
            head.push_str(&format!("; {each} each character"));
        }
        all.extend(cells.chunks(self.columns).map(<[_]>::to_vec));
        all
    }

    /// What the map shows.
    fn legend(&self) -> [String; 2] {
        let count = self.now.stats.partitions.len();
        let split = HumanBytes(self.now.partition_bytes);
        let merged = HumanBytes(self.now.unsorted_bytes);
        [
            format!("{count} partitions in the order of their keys"),
            format!("height: data, full at {split}; colour: unmerged, of {merged}, red when full"),
        ]
    }
}
