//! Between Python and the engine: arguments, options, errors, what waits, and who may go on.

pub(crate) mod args;
pub(crate) mod callbacks;
pub(crate) mod errors;
pub(crate) mod guard;
pub(crate) mod locks;
pub(crate) mod options;
pub(crate) mod waits;
