//! How failures appear in Python.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::PyException;
use pyo3::prelude::*;

pyo3::create_exception!(
    torch_diode,
    DiodeError,
    PyException,
    "What was given, what was expected and what to do."
);

/// A `DiodeError` with the message of an error in Rust.
pub(crate) fn refusal(error: impl std::fmt::Display) -> PyErr {
    DiodeError::new_err(error.to_string())
}

/// Computes while other Python threads run. A panic becomes an error, too: a failed choice of a
/// kernel must not end the user's program.
pub(crate) fn computed<T: Send, E: std::fmt::Display + Send>(
    py: Python<'_>,
    compute: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    py.detach(|| catch_unwind(AssertUnwindSafe(compute)))
        .map_err(|_| refusal("a defect in torch_diode: its computation panicked; please report it"))?
        .map_err(refusal)
}
