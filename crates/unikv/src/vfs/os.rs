//! (placeholder)
#[derive(Debug)]
pub struct OsVfs;
#[derive(Debug, Default)]
pub struct OsRuntime;
