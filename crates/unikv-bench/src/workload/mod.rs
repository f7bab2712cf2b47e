//! What a client does: phases of operations, keys, values that name themselves, and what a read of
//! each record may return.

pub mod generator;
pub mod keys;
pub mod phases;
pub mod quantity;
pub mod values;
pub mod versions;
