//! The Rust core of `torch_diode`, which computes everything for the plug-in.
//!
//! The Python part only connects it to torch. The core has problems, configs, models, tables,
//! datasets and the rules of what can be launched, as Python classes. Every failure is a
//! `DiodeError`, whose classes are in `errors.py`. Long computations let other Python threads run.
#![allow(
    clippy::doc_lazy_continuation,
    reason = "Python shows these comments, and what follows `>>>` is an example's output, not a quotation"
)]

mod config;
mod dataset;
mod epilogue;
mod error;
mod model;
mod problem;
mod table;

use pyo3::prelude::*;

/// The name of this distribution. Both distributions hold the same Python files.
const DISTRIBUTION: &str = if cfg!(feature = "full") { "torch-diode" } else { "torch-diode-lib" };

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("DISTRIBUTION", DISTRIBUTION)?;
    module.add("DiodeError", module.py().get_type::<error::DiodeError>())?;
    module.add_class::<problem::PyProblem>()?;
    module.add_class::<config::PyConfig>()?;
    module.add_class::<problem::PyHardware>()?;
    module.add_class::<model::PyModel>()?;
    module.add_class::<model::PyChoice>()?;
    module.add_class::<table::PyTable>()?;
    module.add_class::<dataset::PyDataset>()?;
    module.add_class::<epilogue::PyEpilogue>()?;
    module.add_class::<epilogue::PyCosts>()?;
    module.add_function(wrap_pyfunction!(epilogue::hides_steps, module)?)?;
    module.add_function(wrap_pyfunction!(config::obstacle, module)?)?;
    module.add_function(wrap_pyfunction!(model::shipped_models, module)?)?;
    module.add_function(wrap_pyfunction!(problem::known_hardware, module)?)?;
    Ok(())
}
