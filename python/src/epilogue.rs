//! Epilogues for Python: what follows a multiplication and may become part of its kernel.

use diode_model::epilogue::{self, Costs, Following};
use pyo3::prelude::*;

use crate::config::PyConfig;
use crate::error::refusal;
use crate::problem::PyHardware;
use crate::problem::PyProblem;

/// What follows a multiplication element by element, so that Inductor puts it into a tile's kernel.
#[pyclass(name = "Epilogue", module = "torch_diode", frozen, eq)]
#[derive(Clone, PartialEq)]
pub(crate) struct PyEpilogue(pub(crate) Following);

#[pymethods]
impl PyEpilogue {
    #[new]
    #[pyo3(signature = (ops, elements, product_bytes, read_bytes, written_bytes, *, keeps_product))]
    fn new(
        ops: Vec<String>,
        elements: u64,
        product_bytes: u64,
        read_bytes: u64,
        written_bytes: u64,
        keeps_product: bool,
    ) -> Self {
        Self(Following { ops, elements, product_bytes, read_bytes, written_bytes, keeps_product })
    }

    #[getter]
    fn ops(&self) -> Vec<String> {
        self.0.ops.clone()
    }

    #[getter]
    fn product_bytes(&self) -> u64 {
        self.0.product_bytes
    }

    /// How many bytes of other operands it reads.
    #[getter]
    fn read_bytes(&self) -> u64 {
        self.0.read_bytes
    }

    #[getter]
    fn written_bytes(&self) -> u64 {
        self.0.written_bytes
    }

    /// Whether the product itself is stored, too.
    #[getter]
    fn keeps_product(&self) -> bool {
        self.0.keeps_product
    }

    /// The names of its functions, each once. Casts are named only if there is nothing else.
    #[getter]
    fn label(&self) -> String {
        self.0.label()
    }
}

/// The measured costs of epilogues on one kind of hardware.
#[pyclass(name = "Costs", module = "torch_diode", frozen, eq, get_all)]
#[derive(Clone, PartialEq)]
pub(crate) struct PyCosts {
    hardware: PyHardware,
    gap_us: f64,
    bytes_per_us: f64,
    erfs_per_us: f64,
    read_us: f64,
    erf_us: f64,
    crowded_erf_us: f64,
    few_warps: f64,
    lost_occupancy: f64,
}

#[pymethods]
impl PyCosts {
    #[new]
    #[pyo3(signature = (hardware, *, gap_us, bytes_per_us, erfs_per_us, read_us, erf_us, crowded_erf_us, few_warps, lost_occupancy))]
    #[expect(clippy::too_many_arguments, reason = "Python passes them by name")]
    fn new(
        hardware: &PyHardware,
        gap_us: f64,
        bytes_per_us: f64,
        erfs_per_us: f64,
        read_us: f64,
        erf_us: f64,
        crowded_erf_us: f64,
        few_warps: f64,
        lost_occupancy: f64,
    ) -> Self {
        Self {
            hardware: hardware.clone(),
            gap_us,
            bytes_per_us,
            erfs_per_us,
            read_us,
            erf_us,
            crowded_erf_us,
            few_warps,
            lost_occupancy,
        }
    }

    /// The costs on a kind of hardware. `None` if nobody has measured them.
    #[staticmethod]
    fn of(hardware: &PyHardware) -> Option<Self> {
        let costs = Costs::for_hardware(&hardware.0)?;
        Some(Self {
            hardware: hardware.clone(),
            gap_us: costs.gap_us,
            bytes_per_us: costs.bytes_per_us,
            erfs_per_us: costs.erfs_per_us,
            read_us: costs.read_us,
            erf_us: costs.erf_us,
            crowded_erf_us: costs.crowded_erf_us,
            few_warps: costs.few_warps,
            lost_occupancy: costs.lost_occupancy,
        })
    }

    /// How long the epilogue takes as a kernel of its own, in µs.
    fn separate_us(&self, epilogue: &PyEpilogue) -> PyResult<f64> {
        Ok(self.costs()?.separate_us(&epilogue.0))
    }

    /// How much longer a tile takes if the epilogue is part of its kernel, in µs.
    fn fused_us(
        &self,
        epilogue: &PyEpilogue,
        problem: &PyProblem,
        tile: &PyConfig,
        alone_us: f64,
    ) -> PyResult<f64> {
        Ok(self.costs()?.fused_us(&epilogue.0, &problem.0, &tile.0, alone_us))
    }
}

impl PyCosts {
    fn costs(&self) -> PyResult<Costs> {
        let facts = self.hardware.0.facts.ok_or_else(|| {
            refusal(format!("hardware: got {}, expected one whose facts are known", self.hardware.0.slug))
        })?;
        Ok(Costs {
            facts,
            gap_us: self.gap_us,
            bytes_per_us: self.bytes_per_us,
            erfs_per_us: self.erfs_per_us,
            read_us: self.read_us,
            erf_us: self.erf_us,
            crowded_erf_us: self.crowded_erf_us,
            few_warps: self.few_warps,
            lost_occupancy: self.lost_occupancy,
        })
    }
}

/// Whether the kernel of a tile should hide how often its loop runs, because its unrolled loop would take
/// long to compile on an H100 or H200. A kernel in fp32 is taken to round to TF32.
#[pyfunction]
pub(crate) fn hides_steps(problem: &PyProblem, config: &PyConfig) -> bool {
    epilogue::hides_steps(&config.0, &problem.0)
}
