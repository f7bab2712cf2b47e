//! What came out: of one phase, and of a whole run; in words for a person, as JSON for a program.

pub mod figures;
pub mod fold;
pub mod phase;
pub mod summary;
pub mod table;
pub(crate) mod words;
