//! Configs for Python.

use diode_core::error::Field;
use diode_core::{AccType, Config, ConfigFields, Invalid, RocmExtras, Template, Tile};
use diode_model::Limits;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{USUAL, Whole, refusal, wrong_value};
use crate::problem::PyProblem;

/// One way to compute a problem: a tile with its stages and warps, a split of K, or the library.
///
/// >>> from torch_diode import Config
/// >>> tile = Config(block_m=64, block_n=128, block_k=64, num_stages=4, num_warps=4)
/// >>> tile.label
/// '64×128×64 s4 w4'
/// >>> tile == Config(**tile.to_dict()), len({tile, Config("aten")})
/// (True, 2)
/// >>> tile
/// Config('triton::mm', block_m=64, block_n=128, block_k=64, group_m=8, num_stages=4, num_warps=4)
#[pyclass(name = "Config", module = "torch_diode", frozen, eq, hash)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PyConfig(pub(crate) Config);

#[pymethods]
impl PyConfig {
    #[new]
    #[pyo3(signature = (template="triton::mm", *, block_m=None, block_n=None, block_k=None, group_m=None, num_stages=None, num_warps=None, even_k=None, allow_tf32=None, use_fast_accum=None, acc_type=None, matrix_instr_nonkdim=None, waves_per_eu=None, kpack=None, k_split=None, swap_ab=None))]
    #[expect(clippy::too_many_arguments, reason = "Python passes them by name")]
    fn new(
        template: &str,
        block_m: Option<Whole>,
        block_n: Option<Whole>,
        block_k: Option<Whole>,
        group_m: Option<Whole>,
        num_stages: Option<Whole>,
        num_warps: Option<Whole>,
        even_k: Option<bool>,
        allow_tf32: Option<bool>,
        use_fast_accum: Option<bool>,
        acc_type: Option<&str>,
        matrix_instr_nonkdim: Option<Whole>,
        waves_per_eu: Option<Whole>,
        kpack: Option<Whole>,
        k_split: Option<Whole>,
        swap_ab: Option<bool>,
    ) -> PyResult<Self> {
        let config = || -> Result<Config, Invalid> {
            let rocm = [&matrix_instr_nonkdim, &waves_per_eu, &kpack].iter().any(|it| it.is_some());
            let of_rocm =
                |number: Option<Whole>, usual| count(Field::Rocm, number).map(|it| it.unwrap_or(usual));
            /// Inductor's usual value.
            const GROUP_M: u32 = 8;
            let template: Template = template.parse()?;
            Config::try_from(ConfigFields {
                template,
                block_m: count(Field::BlockM, block_m)?,
                block_n: count(Field::BlockN, block_n)?,
                block_k: count(Field::BlockK, block_k)?,
                group_m: count(Field::GroupM, group_m)?.or(template.has_tile().then_some(GROUP_M)),
                num_stages: count(Field::NumStages, num_stages)?,
                num_warps: count(Field::NumWarps, num_warps)?,
                even_k,
                allow_tf32,
                use_fast_accum,
                acc_type: acc_type.map(str::parse::<AccType>).transpose()?,
                // Inductor's own values, where Python gives none.
                rocm: rocm
                    .then(|| {
                        Ok::<_, Invalid>(RocmExtras {
                            matrix_instr_nonkdim: of_rocm(matrix_instr_nonkdim, 0)?,
                            waves_per_eu: of_rocm(waves_per_eu, 0)?,
                            kpack: of_rocm(kpack, 2)?,
                        })
                    })
                    .transpose()?,
                k_split: count(Field::KSplit, k_split)?,
                swap_ab,
            })
        };
        config().map(Self).map_err(wrong_value)
    }

    /// The arguments with which `Config` makes it, without those that have their usual value.
    #[allow(clippy::wrong_self_convention, reason = "methods of Python's objects borrow them")]
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let given = PyDict::new(py);
        given.set_item("template", self.template())?;
        let Some(tile) = self.0.tile() else {
            match self.0 {
                Config::DecomposeK { k_split } => given.set_item("k_split", k_split)?,
                Config::RoundingLibrary => given.set_item("allow_tf32", true)?,
                _ => {}
            }
            return Ok(given);
        };
        for (name, number) in [
            ("block_m", tile.block_m),
            ("block_n", tile.block_n),
            ("block_k", tile.block_k),
            ("group_m", tile.group_m),
            ("num_stages", tile.num_stages),
            ("num_warps", tile.num_warps),
        ] {
            given.set_item(name, number)?;
        }
        for (name, flag) in [
            ("even_k", tile.even_k),
            ("allow_tf32", tile.allow_tf32),
            ("use_fast_accum", tile.use_fast_accum),
            ("swap_ab", tile.swap_ab),
        ] {
            if flag {
                given.set_item(name, true)?;
            }
        }
        if tile.acc_type != AccType::Float32 {
            given.set_item("acc_type", tile.acc_type.as_str())?;
        }
        if let Some(rocm) = tile.rocm {
            given.set_item("matrix_instr_nonkdim", rocm.matrix_instr_nonkdim)?;
            given.set_item("waves_per_eu", rocm.waves_per_eu)?;
            given.set_item("kpack", rocm.kpack)?;
        }
        Ok(given)
    }

    /// The tile as a `triton.Config`, for a kernel with `BLOCK_M`, `BLOCK_N`, `BLOCK_K` and `GROUP_M`.
    ///
    /// With `infix="_SIZE_"`, the names are `BLOCK_SIZE_M` to `GROUP_SIZE_M`, as in Triton's tutorial. Raises a `ValueError` for
    /// what is no tile, and for swapped operands.
    #[pyo3(signature = (*, infix="_"))]
    fn triton_config<'py>(&self, py: Python<'py>, infix: &str) -> PyResult<Bound<'py, PyAny>> {
        let Some(tile) = self.0.tile() else {
            return Err(wrong_value(format_args!(
                "got {}, which is no kernel of Triton's; the best tile of a choice is choice.tile[0]",
                self.0.label()
            )));
        };
        if tile.swap_ab {
            return Err(wrong_value(format_args!(
                "got {}, whose operands are swapped, which a triton.Config cannot say; the kernel must multiply the transposes, and to_dict() has the sizes",
                self.0.label()
            )));
        }
        let constants = PyDict::new(py);
        for (word, side, number) in [
            ("BLOCK", 'M', tile.block_m),
            ("BLOCK", 'N', tile.block_n),
            ("BLOCK", 'K', tile.block_k),
            ("GROUP", 'M', tile.group_m),
        ] {
            constants.set_item(format!("{word}{infix}{side}"), number)?;
        }
        if let Some(rocm) = tile.rocm {
            constants.set_item("matrix_instr_nonkdim", rocm.matrix_instr_nonkdim)?;
            constants.set_item("waves_per_eu", rocm.waves_per_eu)?;
            constants.set_item("kpack", rocm.kpack)?;
        }
        let triton = py.import("triton").map_err(|error| {
            refusal(format_args!("triton_config() needs triton ({error}); pip install triton"))
        })?;
        let launch = PyDict::new(py);
        launch.set_item("num_stages", tile.num_stages)?;
        launch.set_item("num_warps", tile.num_warps)?;
        triton.getattr("Config")?.call((constants,), Some(&launch))
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

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let given = self.to_dict(py)?;
        let mut words = vec![format!("'{}'", self.template())];
        for (name, value) in given.iter().skip(1) {
            words.push(format!("{name}={}", value.repr()?));
        }
        Ok(format!("Config({})", words.join(", ")))
    }
}

/// A number that fits a field.
pub(crate) fn count(field: Field, given: Option<Whole>) -> Result<Option<u32>, Invalid> {
    given.map(|number| number.fit(field, USUAL)).transpose()
}

/// What is expected of the bytes of shared memory.
pub(crate) const BYTES: &str = "a number of bytes";

impl PyConfig {
    fn tile(&self, field: impl Fn(&Tile) -> u32) -> Option<u32> {
        self.0.tile().map(field)
    }
}

/// The reason in one sentence why a config cannot run on a problem with this many bytes of shared memory per block.
///
/// `None` if it can.
///
/// >>> from torch_diode import Config, Problem, obstacle
/// >>> large = Config(block_m=128, block_n=128, block_k=128, num_stages=4, num_warps=8)
/// >>> obstacle(Problem("mm", 4096, 4096, 4096, "bf16"), large, 232448)
/// '128×128×128 s4 w8: it needs 262144 bytes of shared memory per block, there are 232448'
#[pyfunction]
#[pyo3(signature = (problem, config, shared_memory, *, tf32=false))]
pub(crate) fn obstacle(
    problem: &PyProblem,
    config: &PyConfig,
    shared_memory: Whole,
    tf32: bool,
) -> PyResult<Option<String>> {
    let bytes = shared_memory.fit("shared_memory", BYTES).map_err(wrong_value)?;
    Ok(Limits::new(&problem.0, bytes, tf32).obstacle(&config.0))
}
