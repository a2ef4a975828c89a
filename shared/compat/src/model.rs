//! A model of one of torch-diode's types, and our file for it: a safetensors file with the network's own
//! tensor names, the scale of the columns and one JSON document.

use std::collections::{BTreeMap, HashMap};

use diode_api::EvaluationReport;
use diode_core::hardware::{Hardware, find, fits};
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, DType, Heuristic, Invalid, Method, Micros, Op, Problem};
use diode_model::features::featured_tile;
use diode_model::file::{KEY, MAX_BYTES, MEAN, STD, names_architecture};
use diode_model::metadata::Training;
use diode_model::{
    Answer, Confidence, Limits, Misfit, Model, ModelError, Predictor, Question, RankedSpace, Ranker,
    Shortlister, rank,
};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};

use crate::checkpoint::{SavedTensor, SavedValues, TorchCheckpoint};
use crate::features;
use crate::features::{Feeding, PredecessorFeatures};
use crate::network::{Architecture, LANES, Network, Scratch};

/// Inputs are clamped to this many deviations from the mean. Training data is never further out.
const FURTHEST: f32 = 8.0;

/// The metadata in our file for a model of these types. torch-diode's own files have none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredecessorMetadata {
    pub heuristic: Heuristic,
    pub hardware: Hardware,
    pub ops: Vec<Op>,
    pub dtypes: Vec<DType>,
    /// The name of the [`PredecessorFeatures`] that the model takes.
    pub feature_set: String,
    pub architecture: Architecture,
    pub training: Training,
    #[serde(default)]
    pub evaluation: Option<EvaluationReport>,
}

/// A network of one of torch-diode's types, from its checkpoint or trained here.
#[derive(Debug, Clone, PartialEq)]
pub struct PredecessorModel {
    architecture: Architecture,
    network: Network,
    feeding: Feeding,
    pub(super) scale: Option<Scale>,
    pub(super) metadata: Option<PredecessorMetadata>,
    pub(super) checkpoint: TorchCheckpoint,
}

/// The scale of the columns for a network that was trained here. Scaled columns have mean 0 and deviation 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    pub(super) mean: Vec<f32>,
    pub(super) std: Vec<f32>,
}

impl PredecessorModel {
    /// A model from torch-diode's checkpoint. Its type follows from the settings stored with the weights.
    pub fn from_checkpoint(checkpoint: TorchCheckpoint) -> Result<Self, ModelError> {
        let architecture = Architecture::of(&checkpoint)?;
        let network = Network::new(&architecture, &checkpoint)?;
        let feeding = Feeding::default();
        Ok(Self { architecture, network, feeding, scale: None, metadata: None, checkpoint })
    }

    /// A model from a network that was trained here, on scaled columns.
    pub fn trained(
        metadata: PredecessorMetadata,
        checkpoint: TorchCheckpoint,
        mean: Vec<f32>,
        std: Vec<f32>,
    ) -> Result<Self, ModelError> {
        let architecture = metadata.architecture.clone();
        architecture.validate()?;
        metadata.hardware.validate()?;
        let features = architecture.features();
        if metadata.feature_set != features.name() {
            let given = metadata.feature_set;
            return Err(ModelError::UnknownFeatureSet { given, expected: features.name() });
        }
        let usable =
            |values: &[f32]| values.len() == features.count() && values.iter().all(|v| v.is_finite());
        if !(usable(&mean) && usable(&std) && std.iter().all(|&std| std > 0.0)) {
            let expected = format!("{} finite means and deviations above 0", features.count());
            return Err(Invalid::new("normalisation", "other values", expected).into());
        }
        let network = Network::new(&architecture, &checkpoint)?;
        let (feeding, scale) = (Feeding::default(), Some(Scale { mean, std }));
        Ok(Self { architecture, network, feeding, scale, metadata: Some(metadata), checkpoint })
    }

    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// The metadata in our file; `None` for torch-diode's own models.
    pub fn metadata(&self) -> Option<&PredecessorMetadata> {
        self.metadata.as_ref()
    }

    /// The same model, with its features computed as torch-diode's plug-in computes them for v1. `None` for the
    /// other types, which the plug-in does not use.
    pub fn as_the_plug_in_fed_it(&self) -> Option<Self> {
        let is_v1 = matches!(self.architecture, Architecture::V1 { .. });
        is_v1.then(|| Self { feeding: Feeding::AsThePlugIn, ..self.clone() })
    }

    /// Adds an evaluation on problems that the model was not trained on.
    pub fn with_evaluation(mut self, report: EvaluationReport) -> Self {
        if let Some(metadata) = &mut self.metadata {
            metadata.evaluation = Some(report);
        }
        self
    }

    /// The natural logarithm of the predicted time in ms, which is the output of torch-diode's
    /// networks.
    pub fn predict_ln_ms(&self, problem: &Problem, configs: &[Config]) -> Result<Vec<f64>, ModelError> {
        let mut outputs = Vec::with_capacity(configs.len());
        let mut columns = vec![[0.0; LANES]; self.architecture.features().count()];
        let mut scratch = Scratch::default();
        for group in configs.chunks(LANES) {
            for (lane, config) in group.iter().enumerate() {
                config.validate()?;
                self.fill(problem, config, &mut columns, lane)?;
            }
            outputs.extend_from_slice(&self.network.forward(&columns, &mut scratch)[..group.len()]);
        }
        let predicted: Vec<f64> = outputs.into_iter().map(|output| self.finish(output.into())).collect();
        match predicted.iter().position(|ln_ms| !ln_ms.is_finite()) {
            Some(index) => Err(ModelError::NotFinite { label: configs[index].label() }),
            None => Ok(predicted),
        }
    }

    fn fill(
        &self,
        problem: &Problem,
        config: &Config,
        columns: &mut [[f32; LANES]],
        lane: usize,
    ) -> Result<(), ModelError> {
        let tile = featured_tile(config)?;
        match self.architecture.features() {
            PredecessorFeatures::Twelve => {
                set_lane(columns, lane, &features::twelve(problem, tile, self.feeding))
            }
            PredecessorFeatures::ThirtySix => set_lane(columns, lane, &features::thirty_six(problem, tile)),
        }
        if let Some(Scale { mean, std }) = &self.scale {
            for (column, (&mean, &std)) in columns.iter_mut().zip(mean.iter().zip(std)) {
                column[lane] = scaled(column[lane], mean, std);
            }
        }
        Ok(())
    }

    /// The logarithm of the predicted time. v1's output is the logarithm of the time that a kernel takes beyond a
    /// fixed overhead.
    fn finish(&self, output: f64) -> f64 {
        match self.architecture {
            Architecture::V1 { kernel_overhead, .. } => {
                let overhead = libm::log(kernel_overhead);
                let (more, less) = (output.max(overhead), output.min(overhead));
                more + libm::log1p(libm::exp(less - more))
            }
            Architecture::Base { .. } | Architecture::Deep { .. } => output,
        }
    }
}

/// Brings a value to its column's scale, as training does.
pub(crate) fn scaled(value: f32, mean: f32, std: f32) -> f32 {
    ((value - mean) / std).clamp(-FURTHEST, FURTHEST)
}

fn set_lane(columns: &mut [[f32; LANES]], lane: usize, row: &[f32]) {
    for (column, &value) in columns.iter_mut().zip(row) {
        column[lane] = value;
    }
}

impl Predictor for PredecessorModel {
    fn predict_ln_us(&self, problem: &Problem, configs: &[Config]) -> Result<Vec<f64>, ModelError> {
        const LN_1000: f64 = 6.907_755_278_982_137;
        Ok(self.predict_ln_ms(problem, configs)?.into_iter().map(|ln_ms| ln_ms + LN_1000).collect())
    }

    fn hardware(&self) -> Option<&Hardware> {
        self.metadata.as_ref().map(|metadata| &metadata.hardware)
    }

    fn training(&self) -> Option<&Training> {
        self.metadata.as_ref().map(|metadata| &metadata.training)
    }

    fn evaluation(&self) -> Option<&EvaluationReport> {
        self.metadata.as_ref()?.evaluation.as_ref()
    }

    /// The number of weights that were learnt. Means and variances of batches were only counted.
    fn parameters(&self) -> u64 {
        let learnt = |name: &str| name.ends_with(".weight") || name.ends_with(".bias");
        let weights = self.checkpoint.tensors.iter().filter(|(name, _)| learnt(name));
        let counts = weights.map(|(_, tensor)| match &tensor.values {
            SavedValues::Float32(values) => values.len() as u64,
            SavedValues::Int64(_) => 0,
        });
        counts.sum()
    }
}

impl PredecessorModel {
    /// Reads a file that [`to_bytes`](Self::to_bytes) made. Everything in it is checked.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        if bytes.len() > MAX_BYTES {
            return Err(ModelError::TooLarge { bytes: bytes.len(), max: MAX_BYTES });
        }
        let (_, header) = SafeTensors::read_metadata(bytes)?;
        let document = header.metadata().as_ref().and_then(|entries| entries.get(KEY));
        let metadata: PredecessorMetadata =
            serde_json::from_str(document.ok_or(ModelError::NoMetadata { key: KEY })?)?;
        let tensors = SafeTensors::deserialize(bytes)?;
        let mut checkpoint = TorchCheckpoint::default();
        let mut scale = BTreeMap::new();
        for (name, view) in tensors.tensors() {
            if view.dtype() != Dtype::F32 {
                let (given, expected) = (format!("{:?}", view.dtype()), "F32".to_owned());
                return Err(Misfit { name, given, expected }.into());
            }
            let (chunks, _) = view.data().as_chunks::<4>();
            let values: Vec<f32> = chunks.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
            if name == MEAN || name == STD {
                scale.insert(name, values);
            } else {
                let values = SavedValues::Float32(values);
                checkpoint.tensors.insert(name, SavedTensor { shape: view.shape().to_vec(), values });
            }
        }
        let mut column = |name| scale.remove(name).unwrap_or_default();
        let (mean, std) = (column(MEAN), column(STD));
        Self::trained(metadata, checkpoint, mean, std)
    }

    /// The model file. The same model always gives the same bytes. A model from torch-diode's checkpoint cannot be
    /// written, because its metadata are not known.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ModelError> {
        let (Some(metadata), Some(Scale { mean, std })) = (&self.metadata, &self.scale) else {
            return Err(ModelError::NoMetadata { key: KEY });
        };
        let floats = self.checkpoint.tensors.iter().filter_map(|(name, tensor)| match &tensor.values {
            SavedValues::Float32(values) => Some((name.as_str(), tensor.shape.clone(), values.as_slice())),
            SavedValues::Int64(_) => None,
        });
        let scale = [(MEAN, vec![mean.len()], mean.as_slice()), (STD, vec![std.len()], std.as_slice())];
        let bytes: Vec<(&str, Vec<usize>, Vec<u8>)> = floats
            .chain(scale)
            .map(|(name, shape, values)| (name, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect()))
            .collect();
        let views = bytes
            .iter()
            .map(|(name, shape, data)| Ok((*name, TensorView::new(Dtype::F32, shape.clone(), data)?)))
            .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
        let document = HashMap::from([(KEY.to_owned(), serde_json::to_string(metadata)?)]);
        Ok(safetensors::serialize(views, Some(document))?)
    }
}

/// The hardware that torch-diode trained its models on. Their files do not name it.
const PREDECESSOR_HARDWARE: &str = "nvidia-h100";

/// A model of any type.
#[derive(Debug, Clone, PartialEq)]
pub enum AnyModel {
    /// Our ranking network.
    Ranking(Box<Model>),
    /// One of torch-diode's networks.
    Predecessor(Box<PredecessorModel>),
}

impl AnyModel {
    /// Reads a model file in our format.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        if names_architecture(bytes) {
            PredecessorModel::from_bytes(bytes).map(Box::new).map(Self::Predecessor)
        } else {
            Model::from_bytes(bytes).map(Box::new).map(Self::Ranking)
        }
    }

    /// The model file. The same model always gives the same bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ModelError> {
        match self {
            Self::Ranking(model) => model.to_bytes(),
            Self::Predecessor(model) => model.to_bytes(),
        }
    }

    fn predictor(&self) -> &dyn Predictor {
        match self {
            Self::Ranking(model) => &**model,
            Self::Predecessor(model) => &**model,
        }
    }

    /// The ranking network, if the model is one.
    pub fn as_ranking(&self) -> Option<&Model> {
        match self {
            Self::Ranking(model) => Some(model),
            Self::Predecessor(_) => None,
        }
    }

    /// The name of the model's type, for lists of models.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Ranking(_) => "ranking",
            Self::Predecessor(model) => model.architecture().kind(),
        }
    }

    /// The space whose configs are ranked if no space is given.
    pub fn space(&self) -> Space {
        Space::Named(SpaceName::Full)
    }

    /// The hardware whose configs are ranked: the model's own. Models from torch-diode name none;
    /// theirs is the hardware on which torch-diode trained them.
    pub fn ranked_hardware(&self) -> Result<Hardware, ModelError> {
        match self.hardware() {
            Some(hardware) => Ok(hardware.clone()),
            None => find(PREDECESSOR_HARDWARE).ok_or_else(|| {
                Invalid::new("hardware", PREDECESSOR_HARDWARE, "a name of the catalogue").into()
            }),
        }
    }

    /// In one sentence, what readers of a prediction should be warned of.
    fn caveat(&self, problem: &Problem) -> Option<String> {
        match self {
            Self::Ranking(model) => model.extrapolates(problem),
            Self::Predecessor(model) if model.metadata().is_none() => Some(format!(
                "This file of torch-diode's does not say which hardware it speaks of; {PREDECESSOR_HARDWARE} is taken, \
                 on which its models were trained."
            )),
            Self::Predecessor(_) => None,
        }
    }

    /// Answers a question about a problem.
    pub fn answer(&self, problem: &Problem, question: &Question<'_>) -> Result<Answer, ModelError> {
        if let Self::Ranking(model) = self {
            return Ranker::new(&**model).answer(problem, question);
        }
        let hardware = self.ranked_hardware()?;
        fits(&hardware, problem)?;
        let mut configs =
            question.space.map_or_else(|| self.space(), Space::Named).configs(&hardware, problem)?;
        let limits = Limits::on_hardware(&hardware, problem, question.shared_memory, question.tf32);
        if let Some(limits) = limits.filter(|_| question.space.is_none()) {
            configs.retain(|config| limits.obstacle(config).is_none());
        }
        let ranked = self.rank(problem, &Space::List(configs))?;
        let picks = ranked.configs.iter().take(question.picks).copied().collect();
        let mut answer = Answer::from_ranking(problem, &hardware, &ranked, picks, question)?;
        answer.caveat = self.caveat(problem);
        let share = |(picks, share): (&String, &f64)| Some((picks.parse().ok()?, *share));
        answer.confidence = self.evaluation().map(|report| Confidence {
            problems: report.problems as u64,
            within_5_percent: report.within_5_percent.iter().filter_map(share).collect(),
            first_us: None,
        });
        Ok(answer)
    }

    /// Every config of a space, with the best first.
    pub fn rank(&self, problem: &Problem, space: &Space) -> Result<RankedSpace, ModelError> {
        let model = match self {
            Self::Ranking(model) => return rank(model, problem, space),
            Self::Predecessor(model) => model,
        };
        let configs = space.configs(&self.ranked_hardware()?, problem)?;
        let predicted = model.predict_ln_us(problem, &configs)?;
        let mut ranked: Vec<(Config, Micros)> =
            configs.into_iter().zip(predicted).map(|(config, ln)| (config, Micros(libm::exp(ln)))).collect();
        ranked.sort_unstable_by(|a, b| a.1.0.total_cmp(&b.1.0).then_with(|| a.0.cmp(&b.0)));
        Ok(RankedSpace::new(ranked, None, 1.0))
    }
}

impl Predictor for AnyModel {
    fn predict_ln_us(&self, problem: &Problem, configs: &[Config]) -> Result<Vec<f64>, ModelError> {
        self.predictor().predict_ln_us(problem, configs)
    }

    fn shortlister(&self) -> Option<Box<dyn Shortlister + '_>> {
        self.predictor().shortlister()
    }

    fn for_method(&self, method: Method) -> Option<Box<dyn Predictor>> {
        self.predictor().for_method(method)
    }

    fn hardware(&self) -> Option<&Hardware> {
        self.predictor().hardware()
    }

    fn training(&self) -> Option<&Training> {
        self.predictor().training()
    }

    fn evaluation(&self) -> Option<&EvaluationReport> {
        self.predictor().evaluation()
    }

    fn parameters(&self) -> u64 {
        self.predictor().parameters()
    }
}
