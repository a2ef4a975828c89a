//! Datasets of timings that Inductor measured.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use diode_core::hardware::Hardware;
use diode_core::timing::{Cache, Clock, Statistic};
use diode_core::{
    ConfigIndex, Dataset, Failure, FailureReason, Method, Problem, Provenance, Solution, TimeColumn,
};
use diode_formats::Format;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::config::PyConfig;
use crate::error::{computed, decoded, refusal, wrong_value};
use crate::problem::PyHardware;
use crate::problem::PyProblem;

/// Inductor's method. It reports the minimum of several repeats. Events time each repeat, and the
/// cache is cleared before it.
const INDUCTORS: Method =
    Method::Known { statistic: Statistic::Minimum, cache: Cache::Cold, clock: Clock::Event };

/// Timings, by problem, on one kind of hardware.
///
/// >>> from torch_diode import Config, Dataset, Problem
/// >>> timings = Dataset("NVIDIA H200")
/// >>> problem = Problem.parse("16x4096x4096")
/// >>> timings.add(problem, [(Config("aten"), 0.0121)])
/// >>> timings.save("timings.msgpack.zst")
/// >>> Dataset.load("timings.msgpack.zst").times(problem)
/// [(Config('aten'), 0.0121)]
#[pyclass(name = "Dataset", module = "torch_diode", frozen)]
pub(crate) struct PyDataset(Mutex<Dataset>);

#[pymethods]
impl PyDataset {
    /// An empty dataset for the hardware with this device name.
    #[new]
    fn new(hardware: &str) -> PyResult<Self> {
        let hardware = Hardware::from_name(hardware).map_err(wrong_value)?;
        let tool = Some(concat!("torch_diode ", env!("CARGO_PKG_VERSION")).to_owned());
        let provenance = Provenance { tool, ..Provenance::default() };
        let configs = std::iter::empty().collect();
        Ok(Self(Mutex::new(Dataset { hardware, provenance, configs, solutions: Vec::new() })))
    }

    /// Reads a file that holds timings of one kind of hardware.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        computed(py, || {
            let decoded = diode_formats::read_file(&path).map_err(|error| error.to_string())?;
            Self::one_of(decoded.datasets).map_err(|error| format!("{}: {error}", path.display()))
        })
    }

    /// Reads the content of a file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        decoded(py, || {
            let decoded = diode_formats::decode(bytes).map_err(|error| format!("dataset: {error}"))?;
            Self::one_of(decoded.datasets).map_err(|error| format!("dataset: {error}"))
        })
    }

    /// The content of its `.msgpack.zst` file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes =
            self.read(|dataset| diode_formats::encode(Format::Columnar, std::slice::from_ref(dataset)));
        Ok(PyBytes::new(py, &bytes.map_err(refusal)?))
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.read(Dataset::clone) == other.read(Dataset::clone)
    }

    /// Adds the timings of one problem. Times are in ms, and `None` if a config failed.
    fn add(&self, problem: &PyProblem, timings: Vec<(PyRef<'_, PyConfig>, Option<f64>)>) -> PyResult<()> {
        let mut dataset = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut times = Vec::with_capacity(timings.len());
        let mut configs: Vec<ConfigIndex> = Vec::with_capacity(timings.len());
        let mut failures = Vec::new();
        for (config, time) in timings {
            let config = dataset.configs.intern(config.0);
            match time {
                Some(time) => {
                    configs.push(config);
                    times.push(time);
                }
                None => failures.push(Failure { config, reason: FailureReason::NotFinite }),
            }
        }
        let times = TimeColumn::from_millis(times).map_err(wrong_value)?;
        dataset.solutions.push(Solution {
            problem: problem.0.clone(),
            method: INDUCTORS,
            configs,
            times,
            minimum_ns: None,
            spread_ns: None,
            repeats: None,
            failures,
        });
        Ok(())
    }

    /// Writes the dataset in the format that the extension names.
    ///
    /// A file that is there is only replaced with `overwrite`. What the format cannot hold is only left out with `lossy`;
    /// then the result says what that was, or is `None`.
    #[pyo3(signature = (path, *, overwrite=false, lossy=false))]
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool, lossy: bool) -> PyResult<Option<String>> {
        computed(py, || {
            let shown = path.display();
            let dataset = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let datasets = std::slice::from_ref(&*dataset);
            let format = Format::from_path(&path).map_err(|error| error.to_string())?;
            // A link that leads nowhere counts, too.
            if !overwrite && path.symlink_metadata().is_ok() {
                return Err(format!("{shown} exists; overwrite=True replaces it"));
            }
            let write =
                |datasets| diode_formats::write_file(&path, datasets).map_err(|error| error.to_string());
            let Some(lost) = diode_formats::losses(format, datasets) else {
                return write(datasets).map(|()| None);
            };
            if !lossy {
                return Err(format!(
                    "{shown}: {format} cannot hold {lost}; write a .msgpack.zst file, or let it go with lossy=True"
                ));
            }
            let mut reduced = diode_formats::reduce(format, datasets);
            for dataset in &mut reduced.datasets {
                // A problem without timings and failures is left out.
                dataset.solutions.retain(|left| !(left.configs.is_empty() && left.failures.is_empty()));
            }
            write(&reduced.datasets)?;
            let said = std::iter::once(lost).chain(reduced.left_out).collect::<Vec<_>>();
            Ok(Some(said.join("; ")))
        })
    }

    #[getter]
    fn hardware(&self) -> PyHardware {
        PyHardware(self.read(|dataset| dataset.hardware.clone()))
    }

    #[getter]
    fn timings(&self) -> usize {
        self.read(Dataset::timings)
    }

    #[getter]
    fn failures(&self) -> usize {
        self.read(Dataset::failures)
    }

    /// The method by which the times of each problem were taken.
    #[getter]
    fn methods(&self) -> Vec<String> {
        self.read(|dataset| dataset.solutions.iter().map(|solution| solution.method.to_string()).collect())
    }

    /// The problems, in the order in which they were added.
    #[getter]
    fn problems(&self) -> Vec<PyProblem> {
        self.read(|dataset| {
            dataset.solutions.iter().map(|solution| PyProblem(solution.problem.clone())).collect()
        })
    }

    /// The times of a problem in ms, the shortest first.
    fn times(&self, problem: &PyProblem) -> Vec<(PyConfig, f64)> {
        self.read(|dataset| times_of(dataset, &problem.0))
    }

    fn __len__(&self) -> usize {
        self.read(|dataset| dataset.solutions.len())
    }

    fn __repr__(&self) -> String {
        self.read(|dataset| {
            let (problems, timings) = (dataset.solutions.len(), dataset.timings());
            format!("<Dataset of {}: {problems} problems, {timings} timings>", dataset.hardware.slug)
        })
    }
}

impl PyDataset {
    fn one_of(datasets: Vec<Dataset>) -> Result<Self, String> {
        let [dataset] = <[Dataset; 1]>::try_from(datasets)
            .map_err(|all| format!("got timings of {} kinds of hardware, expected one", all.len()))?;
        Ok(Self(Mutex::new(dataset)))
    }

    pub(crate) fn read<T>(&self, of: impl FnOnce(&Dataset) -> T) -> T {
        of(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn times_of(dataset: &Dataset, problem: &Problem) -> Vec<(PyConfig, f64)> {
    let of_problem = dataset.solutions.iter().filter(|solution| solution.problem == *problem);
    let mut times: Vec<(PyConfig, f64)> = of_problem
        .flat_map(|solution| {
            let rows = solution.configs.iter().enumerate();
            rows.map(|(row, &config)| (PyConfig(*dataset.configs.get(config)), solution.times.millis(row).0))
        })
        .collect();
    times.sort_by(|a, b| a.1.total_cmp(&b.1));
    times
}
