//! Text in lines that fit a terminal.

use std::io::{self, Write};

/// Columns that what is printed for a person fits in.
pub const COLUMNS: usize = 100;

/// Prints a text in lines that fit, each after `indent`.
///
/// # Errors
/// Those of `out`.
pub fn print_folded(out: &mut impl Write, indent: &str, text: &str) -> io::Result<()> {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && indent.len() + line.len() + 1 + word.len() > COLUMNS {
            writeln!(out, "{indent}{line}")?;
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if line.is_empty() {
        Ok(())
    } else {
        writeln!(out, "{indent}{line}")
    }
}
