//! Models for Python.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use diode_compat::AnyModel;
use diode_compat::PredecessorModel;
use diode_core::hardware::Hardware;
use diode_core::ids::Digest;
use diode_core::space::Space;
use diode_core::{Config, DType, Invalid, Micros, Problem, ProblemGroup};
use diode_formats::FileKind;
use diode_formats::limits::MAX_CHECKPOINT;
use diode_model::epilogue::NEAR;
use diode_model::{MOST_PICKS, Model, ModelError, Predictor as _, Ranker};
use pyo3::prelude::*;

use crate::choice::{Answers, PyChoice, Question};
use crate::error::{computed, refusal};
use crate::hardware::PyHardware;
use crate::limits::why_not;
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
        let question = Question {
            problem: problem.0.clone(),
            top_k,
            tf32,
            shared_memory,
            min_confidence: min_confidence.map(f64::to_bits),
            performance_threshold: performance_threshold.map(f64::to_bits),
        };
        if let Some(known) = self.answers.get(py, &question).filter(|_| cache) {
            return Ok(known);
        }
        check_settings(top_k, min_confidence, performance_threshold).map_err(refusal)?;
        let choice = computed(py, || self.compute(&question, min_confidence, performance_threshold))?;
        let choice = Py::new(py, choice)?;
        if cache {
            self.answers.put(question, choice.clone_ref(py));
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

    fn compute(
        &self,
        question: &Question,
        min_confidence: Option<f64>,
        performance_threshold: Option<f64>,
    ) -> Result<PyChoice, ModelError> {
        let problem = &question.problem;
        let space = Space::List(self.launchable(question)?);
        let confidence = self.model.as_ranking().and_then(|model| model.confidence(problem));
        let wanted = min_confidence.map_or(0, |share| {
            confidence.and_then(|known| known.picks_for(share)).map_or(MOST_PICKS, |picks| picks as usize)
        });
        let count = question.top_k.max(wanted);
        let ranked = match &self.ranker {
            Some(ranker) if count <= MOST_PICKS => {
                ranker.lock().unwrap_or_else(PoisonError::into_inner).shortlist(problem, &space)?
            }
            _ => self.model.rank(problem, &space)?,
        };
        let mut picks = ranked.picks(count);
        let best = picks.iter().map(|(_, time)| time.0).fold(f64::INFINITY, f64::min);
        if let Some(threshold) = performance_threshold {
            picks.retain(|(_, time)| time.0 <= best * threshold);
        }
        let near = ranked.near(&picks, NEAR);
        let fitted = |configs: Vec<(Config, Micros)>| -> Vec<(Config, f64)> {
            configs.into_iter().map(|(config, time)| (config.for_k(problem.k), time.0)).collect()
        };
        let (picks, near) = (fitted(picks), fitted(near));
        let Some(&(_, first)) = picks.first() else {
            return Err(Invalid::new("space", "no config that fits the hardware", "at least one").into());
        };
        let probability = confidence.and_then(|known| {
            let reached = known.within_5_percent.iter().rev();
            reached.into_iter().find(|(count, _)| *count as usize <= picks.len()).map(|(_, share)| *share)
        });
        Ok(PyChoice {
            near,
            ranked: ranked.considered,
            probability,
            first_us: confidence.map(|known| (first * known.time_range.0, first * known.time_range.1)),
            group: ProblemGroup::of(problem).as_str(),
            caveat: self.caveat(problem),
            picks,
        })
    }

    /// The model's configs that can run on the problem under the user's settings. They are the same for
    /// every K, because `EVEN_K` is left open.
    fn launchable(&self, question: &Question) -> Result<Vec<Config>, ModelError> {
        let problem = &question.problem;
        let facts = self.hardware.facts.as_ref();
        let shared_memory = question.shared_memory.or(facts.map(|facts| facts.smem_per_block));
        let shared_memory = shared_memory.unwrap_or(u32::MAX);
        let tf32 = question.tf32 && problem.a_dtype == DType::Float32;
        let configs = self.model.space().configs(&self.hardware, problem)?;
        let fits = |config: &Config| why_not(problem, config, shared_memory, tf32).is_none();
        let computing = configs.into_iter().map(|config| config.rounding(tf32)).filter(fits);
        // No block has a K of 1, so `for_k(1)` clears `EVEN_K` in every config.
        Ok(computing.map(|config| config.for_k(1)).collect())
    }

    fn caveat(&self, problem: &Problem) -> Option<String> {
        match &self.model {
            AnyModel::Ranking(model) => model.extrapolates(problem),
            AnyModel::Predecessor(_) => Some(
                "This is one of torch-diode's networks, which says nothing of how sure it is.".to_owned(),
            ),
        }
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
