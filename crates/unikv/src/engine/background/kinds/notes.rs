//! What is noted for the next opening: what the cache holds, and the time.

pub(super) mod clock;
pub(super) mod hints;
