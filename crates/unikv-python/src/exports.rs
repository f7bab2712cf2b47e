//! Exports: a range of keys in one file, and what such a file holds.

use crate::boundary::args::Range;
use crate::boundary::waits::{detached, interruptible};
use crate::reads::source::{Source, moment};
use crate::writes::Target;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use unikv::{Export, ExportFile};

/// See `Readable.export`.
pub(crate) fn export<'py>(
    py: Python<'py>,
    source: &Source,
    range: Range,
    path: PathBuf,
) -> PyResult<Bound<'py, PyDict>> {
    let what = "a transaction cannot be exported";
    let remedy = "export the database, or a snapshot";
    let snapshot = detached(py, || moment(source, what, remedy))?;
    let made = interruptible(py, move || snapshot.export(range, path))?;
    show(py, &made)
}

/// See `Writable.import_`.
pub(crate) fn import<'py>(
    py: Python<'py>,
    target: Target,
    path: PathBuf,
) -> PyResult<Bound<'py, PyDict>> {
    let read = interruptible(py, move || {
        let file = ExportFile::open(path)?;
        match target {
            Target::Db(db) => db.import(&file),
            Target::Keyspace(keyspace) => keyspace.import(&file),
        }
    })?;
    show(py, &read)
}

/// Reads and verifies all of an export. Returns a dict with the name of the `keyspace` it is of,
/// the `time` at which it was made, in seconds since 1970, and how many `records`, `bytes` and
/// `file_bytes` it has.
///
/// >>> made = db.export(path / "all.export")
/// >>> unikv.check_export(path / "all.export")["records"]
/// 0
#[pyfunction]
pub(crate) fn check_export(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let (file, found) = interruptible(py, move || {
        let file = ExportFile::open(path)?;
        let found = file.verify()?;
        unikv::Result::Ok((file, found))
    })?;
    let shown = show(py, &found)?;
    shown.set_item("keyspace", file.keyspace())?;
    shown.set_item("time", file.time_ms() as f64 / 1000.0)?;
    Ok(shown)
}

fn show<'py>(py: Python<'py>, export: &Export) -> PyResult<Bound<'py, PyDict>> {
    let shown = PyDict::new(py);
    shown.set_item("records", export.records)?;
    shown.set_item("bytes", export.bytes)?;
    shown.set_item("file_bytes", export.file_bytes)?;
    Ok(shown)
}
