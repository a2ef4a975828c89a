//! Hardware for Python.

use diode_core::hardware::{Hardware, find};
use pyo3::prelude::*;

/// A kind of hardware.
#[pyclass(name = "Hardware", module = "torch_diode", frozen, eq)]
#[derive(Clone, PartialEq)]
pub(crate) struct PyHardware(pub(crate) Hardware);

#[pymethods]
impl PyHardware {
    /// The hardware in the catalogue with this device name or slug. `None` if the catalogue does not have
    /// it.
    #[staticmethod]
    fn find(name: &str) -> Option<Self> {
        find(name).map(Self)
    }

    #[getter]
    fn slug(&self) -> &str {
        self.0.slug.as_str()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn vendor(&self) -> &'static str {
        self.0.vendor.as_str()
    }

    #[getter]
    fn sms(&self) -> Option<u32> {
        self.0.facts.map(|facts| facts.sms)
    }

    /// How many bytes of shared memory one block may use.
    #[getter]
    fn shared_memory(&self) -> Option<u32> {
        self.0.facts.map(|facts| facts.smem_per_block)
    }

    fn __repr__(&self) -> String {
        format!("Hardware({:?})", self.0.slug.as_str())
    }
}
