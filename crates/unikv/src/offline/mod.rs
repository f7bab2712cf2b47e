//! What works on the files of a database that need not be open: verification, inspection, repair.

pub(crate) mod check;
pub(crate) mod destroy;
pub mod inspect;
pub(crate) mod repair;
