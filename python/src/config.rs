//! Configs for Python.

use diode_core::{AccType, Config, ConfigFields, Invalid, RocmExtras, Template, Tile};
use diode_model::Limits;
use pyo3::prelude::*;

use crate::error::refusal;
use crate::problem::PyProblem;

/// One way to compute a problem.
#[pyclass(name = "Config", module = "torch_diode", frozen, eq, hash)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PyConfig(pub(crate) Config);

#[pymethods]
impl PyConfig {
    #[new]
    #[pyo3(signature = (template="triton::mm", *, block_m=None, block_n=None, block_k=None, group_m=None, num_stages=None, num_warps=None, even_k=None, allow_tf32=None, use_fast_accum=None, acc_type=None, matrix_instr_nonkdim=None, waves_per_eu=None, kpack=None, k_split=None))]
    #[expect(clippy::too_many_arguments, reason = "Python passes them by name")]
    fn new(
        template: &str,
        block_m: Option<u32>,
        block_n: Option<u32>,
        block_k: Option<u32>,
        group_m: Option<u32>,
        num_stages: Option<u32>,
        num_warps: Option<u32>,
        even_k: Option<bool>,
        allow_tf32: Option<bool>,
        use_fast_accum: Option<bool>,
        acc_type: Option<&str>,
        matrix_instr_nonkdim: Option<u32>,
        waves_per_eu: Option<u32>,
        kpack: Option<u32>,
        k_split: Option<u32>,
    ) -> PyResult<Self> {
        let config = || -> Result<Config, Invalid> {
            let rocm = [matrix_instr_nonkdim, waves_per_eu, kpack].iter().any(Option::is_some);
            /// Inductor's usual value.
            const GROUP_M: u32 = 8;
            let template: Template = template.parse()?;
            Config::try_from(ConfigFields {
                template,
                block_m,
                block_n,
                block_k,
                group_m: group_m.or(template.has_tile().then_some(GROUP_M)),
                num_stages,
                num_warps,
                even_k,
                allow_tf32,
                use_fast_accum,
                acc_type: acc_type.map(str::parse::<AccType>).transpose()?,
                // Inductor's own values, where Python gives none.
                rocm: rocm.then_some(RocmExtras {
                    matrix_instr_nonkdim: matrix_instr_nonkdim.unwrap_or(0),
                    waves_per_eu: waves_per_eu.unwrap_or(0),
                    kpack: kpack.unwrap_or(2),
                }),
                k_split,
                swap_ab: None,
            })
        };
        config().map(Self).map_err(refusal)
    }

    /// The template's name in Inductor. For the library kernel it is `aten`.
    #[getter]
    fn template(&self) -> &'static str {
        self.0.template().as_str()
    }

    #[getter]
    fn is_library(&self) -> bool {
        self.0.is_library()
    }

    #[getter]
    fn block_m(&self) -> Option<u32> {
        self.tile(|tile| tile.block_m)
    }

    #[getter]
    fn block_n(&self) -> Option<u32> {
        self.tile(|tile| tile.block_n)
    }

    #[getter]
    fn block_k(&self) -> Option<u32> {
        self.tile(|tile| tile.block_k)
    }

    #[getter]
    fn group_m(&self) -> Option<u32> {
        self.tile(|tile| tile.group_m)
    }

    #[getter]
    fn num_stages(&self) -> Option<u32> {
        self.tile(|tile| tile.num_stages)
    }

    #[getter]
    fn num_warps(&self) -> Option<u32> {
        self.tile(|tile| tile.num_warps)
    }

    /// Whether its operands are swapped, so that few rows become the second side of the instruction.
    #[getter]
    fn swap_ab(&self) -> bool {
        self.0.tile().is_some_and(|tile| tile.swap_ab)
    }

    /// ROCm's `matrix_instr_nonkdim`, `waves_per_eu` and `kpack`.
    #[getter]
    fn rocm(&self) -> Option<(u32, u32, u32)> {
        let extras = self.0.tile()?.rocm?;
        Some((extras.matrix_instr_nonkdim, extras.waves_per_eu, extras.kpack))
    }

    #[getter]
    fn k_split(&self) -> Option<u32> {
        match self.0 {
            Config::DecomposeK { k_split } => Some(k_split),
            _ => None,
        }
    }

    /// The config as it is shown: `128×256×64 s3 w8`.
    #[getter]
    fn label(&self) -> String {
        self.0.label()
    }

    fn __repr__(&self) -> String {
        format!("Config({:?})", self.0.canonical())
    }
}

impl PyConfig {
    fn tile(&self, field: impl Fn(&Tile) -> u32) -> Option<u32> {
        self.0.tile().map(field)
    }
}

/// The reason in one sentence why a config cannot run on a problem with this many bytes of shared memory per block.
/// `None` if it can.
#[pyfunction]
#[pyo3(signature = (problem, config, shared_memory, *, tf32=false))]
pub(crate) fn obstacle(
    problem: &PyProblem,
    config: &PyConfig,
    shared_memory: u32,
    tf32: bool,
) -> Option<String> {
    Limits::new(&problem.0, shared_memory, tf32).obstacle(&config.0)
}
