//! Tables for Python.

use std::hash::{Hash as _, Hasher as _};
use std::path::PathBuf;

use diode_core::Table;
use diode_core::ids::Digest;
use diode_core::table::inductor::{InductorOptions, TorchVersion};
use diode_formats::FileKind;
use pyo3::prelude::*;

use crate::config::PyConfig;
use crate::dataset::PyDataset;
use crate::error::{Whole, computed, decoded, refusal, whole, wrong_value};
use crate::model::from_one;
use crate::problem::PyHardware;
use crate::problem::PyProblem;

/// The most bytes of a table. A table of 100,000 problems with five configs each takes 220 MB.
const MAX_BYTES: u64 = 1 << 30;

/// The best known configs of problems on one hardware.
///
/// >>> from torch_diode import Config, Dataset, Problem, Table
/// >>> timings = Dataset("NVIDIA H200")
/// >>> timings.add(Problem.parse("16x4096x4096"), [(Config("aten"), 0.0121)])
/// >>> Table.from_dataset(timings).lookup(Problem.parse("16x4096x4096"))
/// [(Config('aten'), 12.1)]
#[pyclass(name = "Table", module = "torch_diode", frozen)]
pub(crate) struct PyTable {
    table: Table,
    digest: Digest,
}

#[pymethods]
impl PyTable {
    /// Reads a table of Diode, or a lookup table of torch-diode for a single hardware.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        computed(py, || {
            let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
            let length = std::fs::metadata(&path).map_err(|error| named(&error))?.len();
            if length > MAX_BYTES {
                return Err(named(&format_args!(
                    "got {length} bytes, expected a table of at most {MAX_BYTES}"
                )));
            }
            let bytes = std::fs::read(&path).map_err(|error| named(&error))?;
            Self::decode(&bytes).map_err(|error| named(&error))
        })
    }

    /// Reads the text of a table.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        decoded(py, || Self::decode(text.as_bytes()).map_err(|error| format!("table: {error}")))
    }

    /// A table of measured timings, from a `Dataset` or its file, with the `top` best configs of every problem.
    #[staticmethod]
    #[pyo3(signature = (dataset, top=None))]
    fn from_dataset(py: Python<'_>, dataset: &Bound<'_, PyAny>, top: Option<Whole>) -> PyResult<Self> {
        let top = top.map(|top| from_one("top", top)).transpose().map_err(wrong_value)?;
        let datasets = match dataset.cast::<PyDataset>() {
            Ok(dataset) => vec![dataset.get().read(diode_core::Dataset::clone)],
            Err(_) => {
                let path: PathBuf = dataset.extract()?;
                computed(py, || diode_formats::read_file(&path))?.datasets
            }
        };
        computed(py, || -> Result<Self, String> {
            let table = Table::from_datasets(&datasets, None, top).map_err(|error| error.to_string())?;
            Self::new(table).map_err(|error| error.to_string())
        })
    }

    /// The configs of exactly this problem and their times in µs. The preferred config comes first.
    fn lookup(&self, problem: &PyProblem) -> Option<Vec<(PyConfig, Option<f64>)>> {
        let configs = self.table.lookup(&problem.0)?;
        Some(configs.iter().map(|entry| (PyConfig(entry.config), entry.time.map(|time| time.0))).collect())
    }

    /// The configs that the most similar problems suggest. Each has the share of time by which it
    /// is expected to be slower than the best.
    #[pyo3(signature = (problem, top=1))]
    fn nearest(
        &self,
        py: Python<'_>,
        problem: &PyProblem,
        #[pyo3(from_py_with = whole)] top: i128,
    ) -> PyResult<Option<Vec<(PyConfig, f64)>>> {
        let top = from_one("top", Whole(top)).map_err(wrong_value)?;
        computed(py, || -> Result<_, std::convert::Infallible> {
            let nearest = self.table.nearest(&problem.0, top);
            Ok(nearest.map(|nearest| {
                let advice = nearest.candidates.into_iter();
                advice.map(|advice| (PyConfig(advice.config), advice.expected_loss)).collect()
            }))
        })
    }

    /// The table's file as text.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string_pretty(&self.table).map_err(refusal)
    }

    /// The value of Inductor's `lookup_table.table` setting, as JSON.
    #[pyo3(signature = (*, device_agnostic=false, torch=None))]
    fn to_inductor_json(&self, device_agnostic: bool, torch: Option<&str>) -> PyResult<String> {
        let torch = torch.map(str::parse::<TorchVersion>).transpose().map_err(wrong_value)?;
        let options = InductorOptions { device_agnostic, torch, ..InductorOptions::default() };
        let table = self.table.to_inductor(&options).map_err(refusal)?;
        serde_json::to_string_pretty(&table).map_err(refusal)
    }

    /// The SHA-256 of the table's file.
    #[getter]
    fn digest(&self) -> &str {
        self.digest.as_str()
    }

    #[getter]
    fn hardware(&self) -> PyHardware {
        PyHardware(self.table.hardware().clone())
    }

    /// The method by which the times were taken.
    #[getter]
    fn method(&self) -> String {
        self.table.method().to_string()
    }

    fn __len__(&self) -> usize {
        self.table.len()
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.table == other.table
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        (self.table.hardware().slug.as_str(), self.table.len()).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        format!("<Table of {}: {} problems>", self.table.hardware().slug, self.table.len())
    }
}

impl PyTable {
    fn new(table: Table) -> Result<Self, serde_json::Error> {
        let digest = Digest::of(&serde_json::to_vec(&table)?);
        Ok(Self { table, digest })
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let table = match diode_formats::recognise(bytes) {
            Some(FileKind::LookupTable) => {
                let mut tables =
                    diode_formats::decode_lookup_table(bytes).map_err(|error| error.to_string())?;
                let Some(lut) = tables.pop().filter(|_| tables.is_empty()) else {
                    return Err("got a lookup table of several kinds of hardware, expected one; split it with `diode table`".to_owned());
                };
                lut.into_table().map_err(|error| error.to_string())?
            }
            Some(other @ FileKind::Timings) => {
                return Err(format!("got {other}, expected a table; `diode table` makes one of it"));
            }
            _ => serde_json::from_slice(bytes).map_err(|error| error.to_string())?,
        };
        Ok(Self { table, digest: Digest::of(bytes) })
    }
}
