//! The `unikv` command.
fn main() {}
