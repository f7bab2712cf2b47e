//! A recovered manifest that stays in force, as a full disk has no room for another.

use super::{Manifest, RecoveredManifest};
use crate::base::keys::FileNumber;
use crate::error::Error;
use crate::version::file_names::{self, FileName};
use std::path::PathBuf;

/// What is to be known of it.
#[derive(Debug)]
pub(crate) struct StayingManifest {
    number: FileNumber,
    path: PathBuf,
    len: u64,
    edits: u64,
}

impl RecoveredManifest {
    /// What is to be known of it if it stays in force.
    pub(crate) fn staying(&self) -> Option<StayingManifest> {
        let name = self.path.file_name()?.to_str()?;
        let Some(FileName::Manifest(number)) = file_names::parse(name) else {
            return None;
        };
        Some(StayingManifest {
            number,
            path: self.path.clone(),
            len: self.end,
            edits: self.edit_count,
        })
    }
}

impl Manifest {
    /// Whether it is a recovered one that stays in force.
    pub(crate) fn is_staying(&self) -> bool {
        self.log.is_none()
    }

    /// A manifest to which nothing is ever appended, for this cause.
    pub(crate) fn stay(recovered: StayingManifest, cause: &Error) -> Manifest {
        Manifest {
            number: recovered.number,
            path: recovered.path,
            log: None,
            len: recovered.len,
            edits: recovered.edits,
            synced_end: 0,
            poisoned: Some(cause.clone()),
        }
    }
}
