//! Databases that nobody has open: checking, repairing, destroying, restoring.

use crate::boundary::waits::interruptible;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::path::PathBuf;
use unikv::backup::{Made, Point, Repository};
use unikv::{Db, RepairOptions};

/// Removes the database in a directory, and the directory if nothing else is in it. Where there is
/// none, nothing is done.
#[pyfunction]
pub(crate) fn destroy(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    interruptible(py, move || Db::destroy(path))
}

/// Reads and verifies every byte of a database, and changes nothing. Returns a dict with
/// `problems`, a list of texts that is empty if all is well, and how much was read.
#[pyfunction]
pub(crate) fn check(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let report = interruptible(py, move || Db::check(path))?;
    let problems: Vec<String> = report
        .problems
        .iter()
        .map(|problem| format!("{}: {}", problem.file.display(), problem.what))
        .collect();
    let shown = PyDict::new(py);
    shown.set_item("problems", problems)?;
    shown.set_item("notes", report.notes)?;
    shown.set_item("files", report.files)?;
    shown.set_item("bytes", report.bytes)?;
    shown.set_item("records", report.records)?;
    Ok(shown)
}

/// Saves what is intact of a damaged database into a new one in `to`. Returns a dict that says what
/// was `saved` and `lost`, in entries.
#[pyfunction]
pub(crate) fn repair(py: Python<'_>, path: PathBuf, to: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let report = interruptible(py, move || Db::repair(path, to, &RepairOptions::default()))?;
    let shown = PyDict::new(py);
    shown.set_item("saved", report.saved)?;
    shown.set_item("saved_bytes", report.saved_bytes)?;
    shown.set_item("lost", report.lost)?;
    shown.set_item("lost_ranges", report.lost_range_count)?;
    shown.set_item("in_doubt", report.in_doubt)?;
    shown.set_item("notes", report.notes)?;
    Ok(shown)
}

/// Exchanges the names of two directories, so that both are there at each moment. False: the file
/// system cannot, and nothing has changed.
#[pyfunction(name = "_exchange")]
pub(crate) fn exchange(path: PathBuf, other: PathBuf) -> PyResult<bool> {
    match renameat_with(CWD, path, CWD, other, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(std::io::Error::from(error).into()),
    }
}

/// A backup that was made, as a dict.
pub(crate) fn show_made<'py>(py: Python<'py>, made: &Made) -> PyResult<Bound<'py, PyDict>> {
    let shown = show_point(py, &made.point)?;
    shown.set_item("copied_bytes", made.copied_bytes)?;
    shown.set_item("shared_bytes", made.shared_bytes)?;
    Ok(shown)
}

/// A point of a repository, as a dict.
fn show_point<'py>(py: Python<'py>, point: &Point) -> PyResult<Bound<'py, PyDict>> {
    let shown = PyDict::new(py);
    shown.set_item("number", point.number)?;
    shown.set_item("time", point.time_ms as f64 / 1000.0)?;
    shown.set_item("files", point.files())?;
    shown.set_item("bytes", point.bytes())?;
    Ok(shown)
}

/// The points of a repository of backups, the oldest first, as dicts with `number`, `time` (in
/// seconds since 1970), `files` and `bytes`.
#[pyfunction]
pub(crate) fn backup_points(py: Python<'_>, repository: PathBuf) -> PyResult<Bound<'_, PyList>> {
    let points = interruptible(py, move || Repository::at(repository).points())?;
    let shown = PyList::empty(py);
    for point in &points.points {
        shown.append(show_point(py, point)?)?;
    }
    Ok(shown)
}

/// Makes a database in the new directory `to` of a point of a repository of backups.
#[pyfunction]
pub(crate) fn restore(
    py: Python<'_>,
    repository: PathBuf,
    number: u64,
    to: PathBuf,
) -> PyResult<()> {
    interruptible(py, move || Repository::at(repository).restore(number, to))?;
    Ok(())
}
