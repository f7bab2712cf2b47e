//! Writing a sorted run of claims.

use crate::error::{Error, Result};
use std::path::PathBuf;

/// Bytes that are written at a time.
const WRITE_BYTES: usize = 256 << 10;

/// A run being written.
pub(crate) struct RunWriter {
    file: Box<dyn crate::vfs::WriteFile>,
    path: PathBuf,
    buffer: Vec<u8>,
}

impl RunWriter {
    pub(crate) fn new(file: Box<dyn crate::vfs::WriteFile>, path: PathBuf) -> RunWriter {
        let buffer = Vec::new();
        RunWriter { file, path, buffer }
    }

    pub(crate) fn push(&mut self, claim: &[u8]) -> Result<()> {
        self.buffer
            .extend_from_slice(&(claim.len() as u32).to_le_bytes());
        self.buffer.extend_from_slice(claim);
        if self.buffer.len() >= WRITE_BYTES {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        let written = self.file.append(&self.buffer);
        self.buffer.clear();
        written.map_err(|e| Error::io("write this file", &self.path, e))
    }

    pub(crate) fn finish(mut self) -> Result<PathBuf> {
        self.write()?;
        Ok(self.path)
    }
}
