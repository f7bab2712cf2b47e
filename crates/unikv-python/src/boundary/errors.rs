//! Errors, on their way to Python.

use crate::boundary::callbacks;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

/// Why a call fails.
pub(crate) enum Fault {
    /// The engine says so.
    Engine(unikv::Error),
    /// A handle is used that has ended: the kind of the error, what has ended, and what to do.
    Ended(&'static str, String, &'static str),
    /// Python has raised it.
    Python(PyErr),
}

impl Fault {
    /// Something was closed by the program.
    #[cold]
    pub(crate) fn closed(what: &str) -> Fault {
        let what = format!("the {what} has been closed");
        Fault::Ended("Closed", what, "make another one")
    }

    /// The call is wrong.
    #[cold]
    pub(crate) fn invalid(what: impl Into<String>, remedy: &'static str) -> Fault {
        Fault::Ended("InvalidArgument", what.into(), remedy)
    }
}

impl From<unikv::Error> for Fault {
    fn from(error: unikv::Error) -> Fault {
        Fault::Engine(error)
    }
}

impl From<PyErr> for Fault {
    fn from(error: PyErr) -> Fault {
        Fault::Python(error)
    }
}

impl From<Fault> for PyErr {
    #[cold]
    fn from(fault: Fault) -> PyErr {
        match fault {
            Fault::Python(error) => error,
            Fault::Engine(error) => Python::attach(|py| {
                let kind = format!("{:?}", error.kind());
                let details = PyDict::new(py);
                let filled = details
                    .set_item("file", error.file())
                    .and_then(|()| details.set_item("offset", error.offset()))
                    .and_then(|()| details.set_item("remedy", error.remedy()));
                filled
                    .and_then(|()| raise(py, &kind, &error.to_string(), &details))
                    .unwrap_or_else(|failed| failed)
            }),
            Fault::Ended(kind, what, remedy) => Python::attach(|py| {
                let details = PyDict::new(py);
                let filled = details.set_item("remedy", remedy);
                filled
                    .and_then(|()| raise(py, kind, &format!("{what} ({remedy})"), &details))
                    .unwrap_or_else(|failed| failed)
            }),
        }
    }
}

/// An exception of the class that a kind of error has.
fn raise(
    py: Python<'_>,
    kind: &str,
    message: &str,
    details: &Bound<'_, PyDict>,
) -> PyResult<PyErr> {
    let classes = callbacks::module(py, "unikv._errors")?;
    let class = classes
        .getattr(format!("{kind}Error"))
        .or_else(|_| classes.getattr("Error"))?
        .cast_into::<PyType>()?;
    let args = (message,).into_pyobject(py)?;
    let made = callbacks::call(&class, &args, Some(details))?;
    Ok(PyErr::from_value(made))
}
