//! What is due, as values: the reasons of decisions.

mod why;

pub(crate) use why::Why;
