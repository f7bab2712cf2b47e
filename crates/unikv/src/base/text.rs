//! Numbers for a person to read.

use std::fmt;

/// Bytes in the unit that leaves few digits: `17 B`, `1.50 MiB`.
pub(crate) struct Size(pub(crate) u64);

const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let power = self.0.max(1).ilog2() as usize / 10;
        let text = match power.checked_sub(1).and_then(|nth| UNITS.get(nth)) {
            None => format!("{} B", self.0),
            Some(unit) => {
                let in_unit = self.0 as f64 / (1_u64 << (10 * power)) as f64;
                format!("{in_unit:.2} {unit}")
            }
        };
        f.pad(&text)
    }
}

/// A number with its thousands apart: `1,234,567`.
pub(crate) struct Count(pub(crate) u64);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
        for (nth, digit) in digits.chars().enumerate() {
            if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

/// A line of a table with two columns.
pub(crate) fn line(f: &mut fmt::Formatter<'_>, what: &str, text: impl fmt::Display) -> fmt::Result {
    writeln!(f, "{what:<14}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_counts_are_short() {
        let sizes = [0, 17, 1023, 1024, 3 << 19, u64::MAX].map(|bytes| Size(bytes).to_string());
        let shown = ["0 B", "17 B", "1023 B", "1.00 KiB", "1.50 MiB", "16.00 EiB"];
        assert_eq!(sizes, shown);
        let counts = [0, 999, 1000, 1_234_567].map(|count| Count(count).to_string());
        assert_eq!(counts, ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            format!("{:>8}|{:<6}|", Size(17), Count(1000)),
            "    17 B|1,000 |"
        );
    }
}
