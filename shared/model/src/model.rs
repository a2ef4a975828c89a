//! A trained model.

use diode_core::api::EvaluationReport;
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, Micros, Problem};

use crate::ModelError;
use crate::features::{self, COLUMN_COUNT, LANES, ProblemFeatures};
use crate::file;
use crate::math;
use crate::metadata::Metadata;
use crate::network::{Network, Scratch};

/// A trained model: predicts how long configs take on problems of one hardware.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    metadata: Metadata,
    network: Network,
}

impl Model {
    /// Joins weights with what is known about them.
    pub fn new(metadata: Metadata, network: Network) -> Result<Self, ModelError> {
        metadata.validate()?;
        Ok(Self { metadata, network })
    }

    /// Reads a model file. Everything in it is checked, so that a loaded model
    /// cannot fail later for reasons of its own.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        let (metadata, network) = file::read(bytes)?;
        Self::new(metadata, network)
    }

    /// The model file; the same model always gives the same bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ModelError> {
        file::write(&self.metadata, &self.network)
    }

    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Adds what was measured on problems the model was not trained on.
    pub fn with_evaluation(mut self, report: EvaluationReport, pick_bias: f64) -> Result<Self, ModelError> {
        self.metadata.evaluation = Some(report);
        self.metadata.pick_bias = pick_bias;
        self.metadata.validate()?;
        Ok(self)
    }

    /// How many weights were learnt.
    pub fn parameters(&self) -> u64 {
        self.network.layers().iter().map(|l| (l.weights.len() + l.bias.len()) as u64).sum()
    }

    pub fn network(&self) -> &Network {
        &self.network
    }

    /// What the model never saw anything like, in one sentence for people; `None`
    /// for a problem of the kinds it was trained on. The prediction then rests on
    /// the physics of the features alone, and nobody has measured how good it is.
    pub fn extrapolates(&self, problem: &Problem) -> Option<String> {
        let Metadata { ops, dtypes, .. } = &self.metadata;
        if ops.contains(&problem.op) && dtypes.contains(&problem.a_dtype) {
            return None;
        }
        let list = |names: Vec<String>| names.join(", ");
        Some(format!(
            "This model was trained on {} in {}; for {} in {} it extrapolates, and nobody has measured how well.",
            list(ops.iter().map(ToString::to_string).collect()),
            list(dtypes.iter().map(ToString::to_string).collect()),
            problem.op,
            problem.a_dtype
        ))
    }

    /// The configs to choose from where nobody says otherwise.
    pub fn space(&self) -> Space {
        Space::Named(SpaceName::Full)
    }

    /// The predicted time of each config. [`rank`](crate::rank()) also corrects for the
    /// bias of picking the best.
    pub fn predict(&self, problem: &Problem, configs: &[Config]) -> Result<Vec<Micros>, ModelError> {
        let hardware = &self.metadata.hardware;
        let facts = hardware.facts.ok_or_else(|| ModelError::NoFacts { hardware: hardware.slug.clone() })?;
        let features = ProblemFeatures::new(&facts, problem).ok_or_else(|| ModelError::NoPeak {
            dtype: problem.a_dtype,
            hardware: hardware.slug.clone(),
            trained: self.metadata.dtypes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        })?;
        let mut tiles = Vec::with_capacity(configs.len());
        for config in configs {
            config.validate()?;
            tiles.push(features::featured_tile(config)?);
        }
        let mut times = Vec::with_capacity(configs.len());
        let mut block = [[1.0; LANES]; COLUMN_COUNT];
        let mut scratch = Scratch::default();
        for group in tiles.chunks(LANES) {
            features.fill(group.iter().copied(), &mut block);
            let over_base = math::exp(self.network.forward(&block, &mut scratch)).to_array();
            for (tile, over_base) in group.iter().zip(over_base) {
                times.push(Micros(f64::from(over_base) * f64::from(features.base_us(tile))));
            }
        }
        match times.iter().position(|time| !time.0.is_finite()) {
            Some(index) => Err(ModelError::NotFinite { label: configs[index].label() }),
            None => Ok(times),
        }
    }
}
