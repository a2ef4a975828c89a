//! Models for Python.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use diode_compat::{AnyModel, PredecessorModel};
use diode_core::hardware::Hardware;
use diode_core::ids::Digest;
use diode_core::{Invalid, Problem};
use diode_formats::FileKind;
use diode_formats::limits::MAX_CHECKPOINT;
use diode_model::epilogue::NEAR;
use diode_model::{Answer, MOST_PICKS, Model, ModelError, Predictor as _, Question, Ranker};
use pyo3::prelude::*;

use crate::choice::{Answers, Asked, PyChoice};
use crate::error::{computed, refusal};
use crate::hardware::PyHardware;
use crate::problem::PyProblem;

/// A trained model.
#[pyclass(name = "Model", module = "torch_diode", frozen)]
pub(crate) struct PyModel {
    model: AnyModel,
    /// Keeps between calls what depends only on configs. `None` for torch-diode's networks.
    ranker: Option<Mutex<Ranker<Arc<Model>>>>,
    hardware: Hardware,
    digest: Digest,
    answers: Answers,
}

#[pymethods]
impl PyModel {
    /// Reads a model file of Diode, or a checkpoint of torch-diode.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        computed(py, || {
            let mut bytes = Vec::new();
            std::fs::File::open(&path)
                .and_then(|file| file.take(MAX_CHECKPOINT as u64 + 1).read_to_end(&mut bytes))
                .map_err(|error| format!("{}: {error}", path.display()))?;
            Self::decode(&bytes).map_err(|error| format!("{}: {error}", path.display()))
        })
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        computed(py, || Self::decode(bytes))
    }

    /// The same weights for other hardware, on which nobody has judged them.
    fn standing_in_for(&self, hardware: &PyHardware) -> PyResult<Self> {
        let AnyModel::Ranking(model) = &self.model else {
            return Err(refusal(
                "model: got one of torch-diode's networks, which knows no hardware; expected one of `diode train`",
            ));
        };
        let model = model.standing_in_for(hardware.0.clone()).map_err(refusal)?;
        let digest = Digest::of(format!("{} for {}", self.digest, hardware.0.slug).as_bytes());
        Self::new(AnyModel::Ranking(Box::new(model)), digest).map_err(refusal)
    }

    /// What to run for a problem: `top_k` configs, or as many more as `min_confidence` needs.
    ///
    /// Configs that are predicted to take more than `performance_threshold` times as long as the best are
    /// left out.
    #[pyo3(signature = (problem, top_k=1, *, min_confidence=None, performance_threshold=None, tf32=false, shared_memory=None, cache=true))]
    #[expect(clippy::too_many_arguments, reason = "Python passes them by name")]
    fn choose(
        &self,
        py: Python<'_>,
        problem: &PyProblem,
        top_k: usize,
        min_confidence: Option<f64>,
        performance_threshold: Option<f64>,
        tf32: bool,
        shared_memory: Option<u32>,
        cache: bool,
    ) -> PyResult<Py<PyChoice>> {
        let [min, slowest] = [min_confidence, performance_threshold].map(|setting| setting.map(f64::to_bits));
        let asked = Asked { problem: problem.0.clone(), top_k, tf32, shared_memory, min, slowest };
        if let Some(known) = self.answers.get(py, &asked).filter(|_| cache) {
            return Ok(known);
        }
        check_settings(top_k, min_confidence, performance_threshold).map_err(refusal)?;
        let question = Question {
            picks: top_k,
            near: NEAR,
            tf32,
            shared_memory,
            slowest: performance_threshold,
            ..Question::default()
        };
        let answer = computed(py, || self.answer(&problem.0, question, min_confidence))?;
        let choice = Py::new(py, PyChoice(answer))?;
        if cache {
            self.answers.put(asked, choice.clone_ref(py));
        }
        Ok(choice)
    }

    /// Drops the choices that were kept.
    fn clear_cache(&self) {
        self.answers.clear();
    }

    #[getter]
    fn cached(&self) -> usize {
        self.answers.len()
    }

    /// The SHA-256 of the model's file.
    #[getter]
    fn digest(&self) -> &str {
        self.digest.as_str()
    }

    #[getter]
    fn kind(&self) -> &'static str {
        self.model.kind()
    }

    #[getter]
    fn hardware(&self) -> PyHardware {
        PyHardware(self.hardware.clone())
    }

    /// The operators that it was trained on. Empty if the file does not state them.
    #[getter]
    fn ops(&self) -> Vec<&'static str> {
        self.metadata(|metadata| metadata.ops.iter().map(|op| op.as_str()).collect())
    }

    #[getter]
    fn dtypes(&self) -> Vec<&'static str> {
        self.metadata(|metadata| metadata.dtypes.iter().map(|dtype| dtype.as_str()).collect())
    }

    /// Whether it has learnt how fast the library is if float32 may be rounded to TF32. Then its picks were judged
    /// there, too.
    #[getter]
    fn knows_tf32(&self) -> bool {
        self.model.as_ranking().is_some_and(|model| model.knows_library(true))
    }

    /// When it was trained, in RFC 3339. Empty if the file does not state it.
    #[getter]
    fn created_at(&self) -> String {
        self.model.training().map(|training| training.created_at.clone()).unwrap_or_default()
    }

    #[getter]
    fn parameters(&self) -> u64 {
        self.model.parameters()
    }

    fn __repr__(&self) -> String {
        format!("Model({:?}, digest={:.12})", self.hardware.slug.as_str(), self.digest)
    }
}

impl PyModel {
    fn new(model: AnyModel, digest: Digest) -> Result<Self, ModelError> {
        let hardware = model.ranked_hardware()?;
        let ranker = model.as_ranking().map(|model| Mutex::new(Ranker::new(Arc::new(model.clone()))));
        Ok(Self { model, ranker, hardware, digest, answers: Answers::default() })
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MAX_CHECKPOINT {
            return Err(format!("got more than {MAX_CHECKPOINT} bytes, expected a model"));
        }
        let model = if diode_formats::recognise(bytes) == Some(FileKind::TorchCheckpoint) {
            let checkpoint = diode_compat::decode_checkpoint(bytes).map_err(|error| error.to_string())?;
            let model = PredecessorModel::from_checkpoint(checkpoint).map_err(|error| error.to_string())?;
            AnyModel::Predecessor(Box::new(model))
        } else {
            AnyModel::from_bytes(bytes).map_err(|error| error.to_string())?
        };
        Self::new(model, Digest::of(bytes)).map_err(|error| error.to_string())
    }

    fn metadata(&self, of: impl Fn(&diode_model::Metadata) -> Vec<&'static str>) -> Vec<&'static str> {
        self.model.as_ranking().map(|model| of(model.metadata())).unwrap_or_default()
    }

    /// With `min_confidence`, as many picks as reach it, and many where it is not reached.
    fn answer(
        &self,
        problem: &Problem,
        mut question: Question,
        min_confidence: Option<f64>,
    ) -> Result<Answer, ModelError> {
        let Some(ranker) = &self.ranker else { return self.model.answer(problem, &question) };
        let mut ranker = ranker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = min_confidence {
            let reached = ranker.model().picks_for(problem, &question, share);
            question.picks = question.picks.max(reached.unwrap_or(MOST_PICKS));
        }
        ranker.answer(problem, &question)
    }
}

fn check_settings(
    top_k: usize,
    min_confidence: Option<f64>,
    performance_threshold: Option<f64>,
) -> Result<(), Invalid> {
    if top_k == 0 {
        return Err(Invalid::new("top_k", top_k, "at least 1"));
    }
    if let Some(share) = min_confidence.filter(|share| !(0.0..=1.0).contains(share)) {
        return Err(Invalid::new("min_confidence", share, "a probability from 0 to 1, or None"));
    }
    match performance_threshold {
        Some(factor) if !(factor.is_finite() && factor >= 1.0) => {
            Err(Invalid::new("performance_threshold", factor, "a factor of at least 1, or None"))
        }
        _ => Ok(()),
    }
}
