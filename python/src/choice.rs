//! A model's picks for a problem, and the cache of them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use diode_core::{Config, Problem};
use pyo3::prelude::*;

use crate::config::PyConfig;

/// A model's picks for one problem.
#[pyclass(name = "Choice", module = "torch_diode", frozen)]
pub(crate) struct PyChoice {
    pub(crate) picks: Vec<(Config, f64)>,
    pub(crate) near: Vec<(Config, f64)>,
    pub(crate) ranked: usize,
    pub(crate) probability: Option<f64>,
    pub(crate) first_us: Option<(f64, f64)>,
    pub(crate) group: &'static str,
    pub(crate) caveat: Option<String>,
}

#[pymethods]
impl PyChoice {
    /// The picked configs with their predicted times in µs, best first.
    #[getter]
    fn picks(&self) -> Vec<(PyConfig, f64)> {
        shown(&self.picks)
    }

    /// The best configs that were not picked.
    #[getter]
    fn near(&self) -> Vec<(PyConfig, f64)> {
        shown(&self.near)
    }

    /// How many configs were compared.
    #[getter]
    fn ranked(&self) -> usize {
        self.ranked
    }

    /// The share of unseen problems of this group on which the best of this many picks was within 5 %
    /// of the best config. `None` if that was not measured.
    #[getter]
    fn probability(&self) -> Option<f64> {
        self.probability
    }

    /// Two times in µs. For four problems in five of the group, the measured time of the first pick
    /// lies between them.
    #[getter]
    fn first_us(&self) -> Option<(f64, f64)> {
        self.first_us
    }

    #[getter]
    fn group(&self) -> &'static str {
        self.group
    }

    /// How the problem differs from all that the model was trained on. `None` if it does not.
    /// Otherwise the prediction is a guess.
    #[getter]
    fn caveat(&self) -> Option<&str> {
        self.caveat.as_deref()
    }

    fn __repr__(&self) -> String {
        let picks: Vec<String> =
            self.picks.iter().map(|(config, us)| format!("{} {us:.1} µs", config.label())).collect();
        format!("Choice({})", picks.join(", "))
    }
}

fn shown(configs: &[(Config, f64)]) -> Vec<(PyConfig, f64)> {
    configs.iter().map(|&(config, us)| (PyConfig(config), us)).collect()
}

/// What a choice depends on besides the model.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    pub(crate) problem: Problem,
    pub(crate) top_k: usize,
    pub(crate) tf32: bool,
    pub(crate) shared_memory: Option<u32>,
    /// The bits of two floats, because floats themselves can be neither hashed nor compared as keys.
    pub(crate) min_confidence: Option<u64>,
    pub(crate) performance_threshold: Option<u64>,
}

/// The choices made so far.
#[derive(Default)]
pub(crate) struct Answers(Mutex<HashMap<Question, Py<PyChoice>>>);

impl Answers {
    /// The most choices that are kept, which take some 10 MB. If there are more, all are dropped.
    const MOST: usize = 1 << 14;

    pub(crate) fn get(&self, py: Python<'_>, question: &Question) -> Option<Py<PyChoice>> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(question).map(|choice| choice.clone_ref(py))
    }

    pub(crate) fn put(&self, question: Question, choice: Py<PyChoice>) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= Self::MOST {
            answers.clear();
        }
        answers.insert(question, choice);
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
