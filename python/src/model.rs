//! Models for Python.

use std::collections::HashMap;
use std::hash::{Hash as _, Hasher as _};
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use diode_compat::{AnyModel, PredecessorModel};
use diode_core::hardware::Hardware;
use diode_core::ids::Digest;
use diode_core::{Invalid, KernelVariant, Problem};
use diode_formats::FileKind;
use diode_formats::limits::MAX_CHECKPOINT;
use diode_model::epilogue::{Following, NEAR, Weighed};
use diode_model::{Answer, Forms, MOST_PICKS, Model, ModelError, Predictor as _, Question, Ranker};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::config::{BYTES, PyConfig};
use crate::epilogue::PyEpilogue;
use crate::error::{Whole, computed, decoded, refusal, whole, wrong_value};
use crate::problem::PyHardware;
use crate::problem::PyProblem;

/// A trained model, which predicts the best configs of a problem on one kind of hardware.
///
/// >>> from torch_diode import Model, Problem
/// >>> model = Model.load("h200")
/// >>> model.hardware.name
/// 'NVIDIA H200'
/// >>> len(model.choose(Problem.parse("16x4096x4096"), top=3).picks)
/// 3
#[pyclass(name = "Model", module = "torch_diode", frozen)]
pub(crate) struct PyModel {
    model: AnyModel,
    /// The file's content.
    bytes: Arc<[u8]>,
    /// Keeps between calls what depends only on configs. `None` for torch-diode's networks.
    ranker: Option<Mutex<Ranker<Arc<Model>>>>,
    hardware: Hardware,
    digest: Digest,
    answers: Answers,
}

#[pymethods]
impl PyModel {
    /// Reads a model file of Diode or a checkpoint of torch-diode, or takes an available model by its name.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Py<Self>> {
        // What has a folder is the name of a file.
        if let Some(name) = path.to_str().filter(|name| !name.contains('/') && !path.exists()) {
            let found = py.import("torch_diode.models")?.call_method1("named", (name,))?;
            return Ok(found.cast_into::<Self>()?.unbind());
        }
        let model = computed(py, || {
            let mut bytes = Vec::new();
            std::fs::File::open(&path)
                .and_then(|file| file.take(MAX_CHECKPOINT as u64 + 1).read_to_end(&mut bytes))
                .map_err(|error| format!("{}: {error}", path.display()))?;
            Self::decode(&bytes).map_err(|error| format!("{}: {error}", path.display()))
        })?;
        Py::new(py, model)
    }

    /// Reads the content of a model's file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        decoded(py, || Self::decode(bytes))
    }

    /// The content of its file. A model that stands in has that of the model for which it does.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.bytes)
    }

    /// Whether its file is that of a model for other hardware.
    #[getter]
    fn stands_in(&self) -> bool {
        self.digest != Digest::of(&self.bytes)
    }

    /// The same weights for other hardware, on which nobody has judged them.
    fn standing_in_for(&self, hardware: &PyHardware) -> PyResult<Self> {
        let AnyModel::Ranking(model) = &self.model else {
            return Err(refusal(
                "model: got one of torch-diode's networks, which knows no hardware; expected one of `diode train`",
            ));
        };
        let model = model.standing_in_for(hardware.0.clone()).map_err(refusal)?;
        let digest = Digest::of(format!("{} for {}", Digest::of(&self.bytes), hardware.0.slug).as_bytes());
        Self::new(AnyModel::Ranking(Box::new(model)), self.bytes.clone(), digest).map_err(refusal)
    }

    /// What to run for a problem: the `top` best configs, or as many more as `min_confidence` needs.
    ///
    /// Configs that are predicted to take more than `performance_threshold` times as long as the best are
    /// left out. If the first pick runs `alone`, it must beat the library clearly, with `epilogue` counted.
    #[pyo3(signature = (problem, top=1, *, min_confidence=None, performance_threshold=None, tf32=false, library_tf32=false, shared_memory=None, epilogue=None, alone=false, untried=false, swapped=true, tma=true, cache=true))]
    #[expect(clippy::too_many_arguments, reason = "Python passes them by name")]
    fn choose(
        &self,
        py: Python<'_>,
        problem: &PyProblem,
        #[pyo3(from_py_with = whole)] top: i128,
        min_confidence: Option<f64>,
        performance_threshold: Option<f64>,
        tf32: bool,
        library_tf32: bool,
        shared_memory: Option<Whole>,
        epilogue: Option<&PyEpilogue>,
        alone: bool,
        untried: bool,
        swapped: bool,
        tma: bool,
        cache: bool,
    ) -> PyResult<Py<PyChoice>> {
        // What nobody can compute has no time. Models of scaled and grouped products say themselves what they have learnt.
        let is_plain = problem.0.op.is_plain();
        if let Some(why) = KernelVariant::obstacle(&problem.0).filter(|_| is_plain) {
            return Err(wrong_value(why));
        }
        let forms = Forms { swapped, tma };
        let (picks, shared_memory) = from_one("top", Whole(top))
            .and_then(|picks| {
                let bytes = shared_memory.map(|bytes| bytes.fit("shared_memory", BYTES)).transpose()?;
                Ok((picks, bytes))
            })
            .map_err(wrong_value)?;
        let [min, slowest] = [min_confidence, performance_threshold].map(|setting| setting.map(f64::to_bits));
        let following = epilogue.map(|epilogue| &epilogue.0);
        let asked = Asked {
            problem: problem.0.clone(),
            picks,
            tf32: [tf32, library_tf32],
            shared_memory,
            following: following.cloned(),
            alone,
            untried,
            forms,
            min,
            slowest,
        };
        if let Some(known) = self.answers.get(py, &asked).filter(|_| cache) {
            return Ok(known);
        }
        check_settings(min_confidence, performance_threshold).map_err(wrong_value)?;
        let question = Question {
            picks,
            near: NEAR,
            tf32,
            library_tf32,
            shared_memory,
            following,
            alone,
            untried,
            forms,
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

    /// When it was trained, in RFC 3339. Empty if the file does not state it.
    #[getter]
    fn created_at(&self) -> String {
        self.model.training().map(|training| training.created_at.clone()).unwrap_or_default()
    }

    #[getter]
    fn parameters(&self) -> u64 {
        self.model.parameters()
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.digest == other.digest
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        self.digest.as_str().hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        format!("<Model of {} {:.12}>", self.hardware.slug, self.digest)
    }
}

impl PyModel {
    fn new(model: AnyModel, bytes: Arc<[u8]>, digest: Digest) -> Result<Self, ModelError> {
        let hardware = model.ranked_hardware()?;
        let ranker = model.as_ranking().map(|model| Mutex::new(Ranker::new(Arc::new(model.clone()))));
        Ok(Self { model, bytes, ranker, hardware, digest, answers: Answers::default() })
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
        Self::new(model, bytes.into(), Digest::of(bytes)).map_err(|error| error.to_string())
    }

    fn metadata(&self, of: impl Fn(&diode_model::Metadata) -> Vec<&'static str>) -> Vec<&'static str> {
        self.model.as_ranking().map(|model| of(model.metadata())).unwrap_or_default()
    }

    /// With `min_confidence`, gives as many picks as reach it, or [`MOST_PICKS`] if no number does.
    fn answer(
        &self,
        problem: &Problem,
        mut question: Question<'_>,
        min_confidence: Option<f64>,
    ) -> Result<Answer, ModelError> {
        let Some(ranker) = &self.ranker else {
            return self.model.answer(problem, &Question { following: None, alone: false, ..question });
        };
        let mut ranker = ranker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = min_confidence {
            let reached = ranker.model().picks_for(problem, &question, share);
            question.picks = question.picks.max(reached.unwrap_or(MOST_PICKS));
        }
        ranker.answer(problem, &question)
    }
}

/// How many are wanted: one at least.
pub(crate) fn from_one(name: &str, given: Whole) -> Result<usize, Invalid> {
    const EXPECTED: &str = "a number from 1 on";
    match given.fit(name, EXPECTED)? {
        0 => Err(Invalid::new(name, 0, EXPECTED)),
        number => Ok(number),
    }
}

fn check_settings(min_confidence: Option<f64>, performance_threshold: Option<f64>) -> Result<(), Invalid> {
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

/// A model's picks for one problem.
///
/// >>> import torch_diode
/// >>> choice = torch_diode.predict("4096x4096x4096", hardware="nvidia-h200", top=3)
/// >>> len(choice.picks), choice.config == choice.picks[0][0], choice.us == choice.picks[0][1]
/// (3, True, True)
#[pyclass(name = "Choice", module = "torch_diode", frozen, eq)]
#[derive(PartialEq)]
pub(crate) struct PyChoice(pub(crate) Answer);

#[pymethods]
impl PyChoice {
    /// The choice that `to_json` has written.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        serde_json::from_str(text).map(Self).map_err(|error| wrong_value(format_args!("choice: {error}")))
    }

    /// The problem, the picks and everything that is said of them, in JSON.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.0).map_err(refusal)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        self.0.problem.hash(&mut hasher);
        hasher.finish()
    }

    /// The first pick.
    #[getter]
    fn config(&self) -> PyResult<PyConfig> {
        Ok(PyConfig(self.first()?.config))
    }

    /// The predicted time of the first pick in µs.
    #[getter]
    fn us(&self) -> PyResult<f64> {
        Ok(self.first()?.alone.0)
    }

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

    /// Why the first pick is the first, in words that complete a sentence.
    #[getter]
    fn why(&self) -> &str {
        &self.0.why
    }

    /// Why nobody knows how good the picks are. Then no tile may run alone. `None` if it is known or does not matter.
    #[getter]
    fn unjudged(&self) -> Option<&str> {
        self.0.unjudged.as_deref()
    }

    /// The best tile, picked or not, with two times in µs: its own, and that of the operations fused into it.
    #[getter]
    fn tile(&self) -> Option<(PyConfig, f64, f64)> {
        self.0.tile().map(|tile| (PyConfig(tile.config), tile.alone.0, tile.following.0))
    }

    /// A reason to doubt the predicted times. `None` if nothing is known to be wrong with them.
    #[getter]
    fn caveat(&self) -> Option<&str> {
        self.0.caveat.as_deref()
    }

    fn __repr__(&self) -> String {
        let shown = |pick: &Weighed| format!("{} {:.1} µs", pick.config.label(), pick.alone.0);
        let picks = self.0.picks.iter().map(shown).collect::<Vec<_>>().join(", ");
        let caveat = self.0.caveat.as_ref().map(|caveat| format!("; {caveat}")).unwrap_or_default();
        format!("<Choice: {picks}{caveat}>")
    }
}

impl PyChoice {
    fn first(&self) -> PyResult<&Weighed> {
        self.0.picks.first().ok_or_else(|| refusal("nothing was picked"))
    }
}

fn shown(picks: &[Weighed]) -> Vec<(PyConfig, f64)> {
    picks.iter().map(|pick| (PyConfig(pick.config), pick.alone.0)).collect()
}

/// What a choice depends on besides the model.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    pub(crate) problem: Problem,
    pub(crate) picks: usize,
    /// Of tiles and of the library.
    pub(crate) tf32: [bool; 2],
    pub(crate) shared_memory: Option<u32>,
    pub(crate) following: Option<Following>,
    pub(crate) alone: bool,
    pub(crate) untried: bool,
    pub(crate) forms: Forms,
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

/// Every file of `trained_models/` that ends in `.safetensors`.
#[cfg(feature = "full")]
const MODELS: &[(&str, &[u8])] = &[
    (
        "matmul-nvidia-h200.safetensors",
        include_bytes!("../../trained_models/matmul/nvidia-h200/matmul-nvidia-h200.safetensors"),
    ),
    (
        "matmul-nvidia-h100.safetensors",
        include_bytes!("../../trained_models/matmul/nvidia-h100/matmul-nvidia-h100.safetensors"),
    ),
];
#[cfg(not(feature = "full"))]
const MODELS: &[(&str, &[u8])] = &[];

/// The names and contents of the models in this distribution. `torch-diode-lib` has none.
#[pyfunction]
pub(crate) fn shipped_models(py: Python<'_>) -> Vec<(&'static str, Bound<'_, PyBytes>)> {
    MODELS.iter().map(|(name, bytes)| (*name, PyBytes::new(py, bytes))).collect()
}
