//! What each kind of job does. When one is due, a rule says (`jobs/plan`).

pub(crate) mod flush;
pub(crate) mod join;
pub(crate) mod merge;

#[cfg(test)]
pub(crate) mod tests;
