//! The C library: LevelDB's interface and what UniKV has beside it. `include/unikv.h` documents it
//! for those who use it; `docs/c.md` says how to build and link.
//!
//! Exported functions are defined in `leveldb` and `more` through one macro, by which no panic
//! leaves them (`boundary`). `unsafe` is in `boundary`, and where a program's own state is
//! carried. The header, the library of LevelDB's names and the lists of symbols are written from
//! the same definitions (`header`).

// The types of arguments can be seen by nobody but C, which sees pointers.
// Who embeds it decides what is printed.
#![warn(clippy::print_stdout, clippy::print_stderr)]
#![allow(
    private_interfaces,
    private_bounds,
    reason = "exported functions are called from C alone"
)]

mod boundary;
#[cfg(test)]
mod header;
mod leveldb;
mod more;
