//! Finding out what the database consisted of: from the manifest, from as much of it as is left, or
//! not at all.
//!
//! `CURRENT` names the manifest. Without it the newest manifest that can be read stands in: an
//! opening makes its manifest durable before `CURRENT` names it, and both then describe the same
//! version. A manifest counts as whole if no durable edit of it is missing: neither by the marks in
//! it, nor by the number of edits that the segments of the log know, nor by the files ([`torn`]).
//! Of one that is not, the edits before the damage are used.
//!
//! No locks; nothing is written.

use crate::base::keys::DatabaseId;
use crate::engine::open::{recovery, stored_options};
use crate::error::{Error, ErrorKind, Result};
use crate::key_table::ReadCache;
use crate::log::replay;
use crate::offline::repair::files::header::{header_of, name_of};
use crate::offline::repair::files::torn;
use crate::offline::repair::report::{RepairReport, RepairTrust};
use crate::options::StoredOptions;
use crate::version::Version;
use crate::version::file_names::{self, DirSurvey, FileName};
use crate::version::manifest::{Manifest, SalvagedManifest};
use crate::vfs::Env;
use crate::vfs::file_store::FileStore;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

const OPEN_FILES: usize = 256;

/// What is known of the database as a whole.
pub(crate) struct Known {
    pub(crate) store: Arc<FileStore>,
    pub(crate) cache: Arc<ReadCache>,
    /// What the edits add up to, and how far that is to be believed.
    pub(crate) version: Option<Version>,
    pub(crate) trust: RepairTrust,
    pub(crate) stored: Option<StoredOptions>,
}

/// Reads `CURRENT` and manifests.
pub(crate) fn find_out(
    env: &Env,
    dir: &Path,
    survey: &DirSurvey,
    cache_bytes: u64,
    report: &mut RepairReport,
) -> Result<Known> {
    let cache = ReadCache::new(cache_bytes);
    let store = |database| {
        FileStore::new(
            env.clone(),
            dir.to_owned(),
            database,
            env.vfs.max_open_files().min(OPEN_FILES),
        )
    };
    let found = find_manifest(env, dir, survey, report)?;
    let Some((manifest, named)) = found else {
        let database = database_by_majority(env, dir, survey)?;
        let what = "there is no manifest: which records are in force follows from the files alone";
        report.notes.push(what.to_owned());
        return Ok(Known {
            store: store(database),
            cache,
            version: None,
            trust: RepairTrust::Files,
            stored: None,
        });
    };
    let store = store(manifest.recovered.database);
    let recovered = &manifest.recovered;
    let stored = match stored_options::of(Some(recovered)) {
        Ok(stored) => Some(stored),
        Err(error) if error.kind() == ErrorKind::Incompatible => return Err(error),
        Err(_) => None,
    };
    let (version, all_fit) = build(&store, &cache, &manifest)?;
    let name = name_of(&recovered.path);
    let entry = report.file(&name);
    entry.items = recovered.edits.len() as u64;
    entry.bytes = env.vfs.len(&recovered.path).unwrap_or(0);
    if let Some(fault) = &manifest.header_damage {
        entry.fault(0, fault.clone());
    }
    if let Some(fault) = &manifest.damage {
        entry.fault(recovered.end, fault.clone());
    }
    let cut = recovered.cut.as_ref();
    let cut = cut.map(|cut| format!("{name}: {}: torn in a power cut, or damaged", cut.reason));
    let segments = recovery::wal_segments(survey);
    let durable = replay::manifest_edits_anywhere(&store, &segments).unwrap_or(0);
    let by_files = match &version {
        Some(version) => torn::lacks_edits(&store, version, survey, &segments)?,
        None => false,
    };
    let lacks_edits = by_files || recovered.check_edits(durable).is_err();
    if lacks_edits {
        entry.fault(recovered.end, "edits that were durable are missing");
    }
    report.notes.extend(cut);
    let whole = manifest.damage.is_none() && !lacks_edits && all_fit && named != Named::Older;
    let trust = match (&version, whole) {
        (Some(_), true) => RepairTrust::Manifest,
        (Some(_), false) => RepairTrust::ManifestPrefix,
        (None, _) => RepairTrust::Files,
    };
    if trust == RepairTrust::ManifestPrefix {
        let what = "edits of the manifest are missing: what came after them follows from the files";
        report.notes.push(what.to_owned());
    }
    Ok(Known {
        store,
        cache,
        version,
        trust,
        stored,
    })
}

/// How a manifest was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    ByCurrent,
    /// It is the newest that there is.
    Newest,
    /// A newer one cannot be read.
    Older,
}

fn find_manifest(
    env: &Env,
    dir: &Path,
    survey: &DirSurvey,
    report: &mut RepairReport,
) -> Result<Option<(SalvagedManifest, Named)>> {
    let current = match Manifest::read_current(&*env.vfs, dir) {
        Ok(current) => Some(current),
        Err(error) => match error.kind() {
            ErrorKind::Corruption => {
                let offset = error.offset().unwrap_or(0);
                report
                    .file(file_names::CURRENT)
                    .fault(offset, error.to_string());
                None
            }
            _ => return Err(error),
        },
    };
    if let Some(current) = &current
        && let Some(manifest) = Manifest::salvage(&*env.vfs, dir, current.number, Some(current))?
    {
        return Ok(Some((manifest, Named::ByCurrent)));
    }
    let mut named = match current {
        Some(_) => Named::Older,
        None => Named::Newest,
    };
    let manifests = survey.names.iter().rev();
    for number in manifests.filter_map(|name| match name {
        FileName::Manifest(number) => Some(*number),
        _ => None,
    }) {
        if let Some(manifest) = Manifest::salvage(&*env.vfs, dir, number, None)? {
            if let Some(current) = &current
                && current.database != manifest.recovered.database
            {
                continue;
            }
            return Ok(Some((manifest, named)));
        }
        let what = "no edit of this manifest can be read";
        report.file(&file_names::manifest(number)).fault(0, what);
        named = Named::Older;
    }
    Ok(None)
}

/// The version that the edits add up to, and whether all of them fit.
fn build(
    store: &Arc<FileStore>,
    cache: &Arc<ReadCache>,
    manifest: &SalvagedManifest,
) -> Result<(Option<Version>, bool)> {
    let recovered = &manifest.recovered;
    for count in (1..=recovered.edits.len()).rev() {
        let edits = recovered.edits.iter(&recovered.path).take(count);
        match recovery::build_version(store, cache, &recovered.path, edits) {
            Ok(version) => return Ok((Some(version), count == recovered.edits.len())),
            Err(error) if error.kind() == ErrorKind::Corruption => {}
            Err(error) => return Err(error),
        }
    }
    Ok((None, false))
}

/// The database to which most files say that they belong.
fn database_by_majority(env: &Env, dir: &Path, survey: &DirSurvey) -> Result<DatabaseId> {
    let mut votes: HashMap<[u8; 16], u64> = HashMap::new();
    for name in &survey.names {
        if let Some(header) = header_of(env, &dir.join(name.to_string()))?
            && header.is_whole()
        {
            *votes.entry(header.raw.database.0).or_default() += 1;
        }
    }
    // Of equally many, any, but always the same.
    let most = votes.into_iter().max_by_key(|(id, count)| (*count, *id));
    let unknown = || {
        let what = "no file here says which database it belongs to";
        Error::corruption(dir, 0, what)
    };
    most.map(|(id, _)| DatabaseId(id)).ok_or_else(unknown)
}
