//! A model's picks for a problem, and the cache of them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use diode_core::Problem;
use diode_model::Answer;
use diode_model::epilogue::Weighed;
use pyo3::prelude::*;

use crate::config::PyConfig;

/// A model's picks for one problem.
#[pyclass(name = "Choice", module = "torch_diode", frozen)]
pub(crate) struct PyChoice(pub(crate) Answer);

#[pymethods]
impl PyChoice {
    /// The picked configs with their predicted times in µs, best first.
    #[getter]
    fn picks(&self) -> Vec<(PyConfig, f64)> {
        shown(&self.0.picks)
    }

    /// The best configs that were not picked.
    #[getter]
    fn near(&self) -> Vec<(PyConfig, f64)> {
        shown(&self.0.near)
    }

    /// How many configs were compared.
    #[getter]
    fn ranked(&self) -> usize {
        self.0.considered
    }

    /// The share of unseen problems of this group on which the best of this many picks was within 5 %
    /// of the best config. `None` if that was not measured.
    #[getter]
    fn probability(&self) -> Option<f64> {
        self.0.confidence.as_ref()?.for_picks(self.0.picks.len())
    }

    /// Two times in µs. For four problems in five of the group, the measured time of the first pick
    /// lies between them.
    #[getter]
    fn first_us(&self) -> Option<(f64, f64)> {
        self.0.confidence.as_ref()?.first_us
    }

    #[getter]
    fn group(&self) -> &'static str {
        self.0.group().as_str()
    }

    /// A reason to doubt the predicted times. `None` if nothing is known to be wrong with them.
    #[getter]
    fn caveat(&self) -> Option<&str> {
        self.0.caveat.as_deref()
    }

    fn __repr__(&self) -> String {
        let shown = |pick: &Weighed| format!("{} {:.1} µs", pick.config.label(), pick.alone.0);
        format!("Choice({})", self.0.picks.iter().map(shown).collect::<Vec<_>>().join(", "))
    }
}

fn shown(picks: &[Weighed]) -> Vec<(PyConfig, f64)> {
    picks.iter().map(|pick| (PyConfig(pick.config), pick.alone.0)).collect()
}

/// What a choice depends on besides the model.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    pub(crate) problem: Problem,
    pub(crate) top_k: usize,
    pub(crate) tf32: bool,
    pub(crate) shared_memory: Option<u32>,
    /// The bits of the least confidence. Floats themselves can be neither hashed nor compared as keys.
    pub(crate) min: Option<u64>,
    /// The bits of the performance threshold.
    pub(crate) slowest: Option<u64>,
}

/// The choices made so far.
#[derive(Default)]
pub(crate) struct Answers(Mutex<HashMap<Asked, Py<PyChoice>>>);

impl Answers {
    /// The most choices that are kept, which take some 10 MB. If there are more, all are dropped.
    const MOST: usize = 1 << 14;

    pub(crate) fn get(&self, py: Python<'_>, asked: &Asked) -> Option<Py<PyChoice>> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(asked).map(|choice| choice.clone_ref(py))
    }

    pub(crate) fn put(&self, asked: Asked, choice: Py<PyChoice>) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= Self::MOST {
            answers.clear();
        }
        answers.insert(asked, choice);
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
