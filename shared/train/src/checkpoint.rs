//! What an interrupted training has already learnt.
//!
//! Only finished networks are kept, because training one takes only seconds. With the same data and seed,
//! the next run learns the other networks exactly as the interrupted run would have.

use std::collections::{BTreeMap, HashMap};

use diode_core::ids::Digest;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use crate::plan::Plan;
use crate::{TrainError, TrainingSet};

/// The name of the training's key in the file's metadata.
const KEY: &str = "diode-checkpoint";
/// The name of the networks' digest in the metadata.
const NETWORKS: &str = "networks";

/// Finished networks, by their phase of the training.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    key: String,
    networks: BTreeMap<String, Vec<f32>>,
}

impl Checkpoint {
    /// An empty checkpoint for a training.
    pub fn new(set: &TrainingSet, plan: &Plan) -> Self {
        let key = format!("{} {:?} {} {}", set.digest(), plan.options, plan.folds, env!("CARGO_PKG_VERSION"));
        Self { key: Digest::of(key.as_bytes()).to_string(), networks: BTreeMap::new() }
    }

    /// Takes the networks from a file of [`Self::to_bytes`]. Refuses a damaged file, and a file of another
    /// training.
    pub fn resume(&mut self, bytes: &[u8]) -> Result<(), TrainError> {
        let (_, header) = SafeTensors::read_metadata(bytes)?;
        let stated = |name| header.metadata().as_ref().and_then(|entries| entries.get(name));
        if stated(KEY) != Some(&self.key) {
            return Err(TrainError::OtherCheckpoint);
        }
        let mut read = Self { key: self.key.clone(), networks: BTreeMap::new() };
        for (phase, view) in SafeTensors::deserialize(bytes)?.iter() {
            let (values, _) = view.data().as_chunks::<4>();
            let weights = values.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
            read.add(phase.to_owned(), weights);
        }
        if stated(NETWORKS) != Some(&read.digest()) {
            return Err(TrainError::DamagedCheckpoint);
        }
        self.networks.append(&mut read.networks);
        Ok(())
    }

    fn digest(&self) -> String {
        let mut all = Vec::new();
        for (phase, weights) in &self.networks {
            all.extend_from_slice(phase.as_bytes());
            all.extend(weights.iter().flat_map(|weight| weight.to_le_bytes()));
        }
        Digest::of(&all).to_string()
    }

    pub fn to_bytes(&self) -> Result<Vec<u8>, TrainError> {
        let data: Vec<(&String, Vec<u8>)> = self
            .networks
            .iter()
            .map(|(phase, weights)| (phase, weights.iter().flat_map(|w| w.to_le_bytes()).collect()))
            .collect();
        let views = data
            .iter()
            .map(|(phase, data)| {
                Ok((phase.as_str(), TensorView::new(Dtype::F32, vec![data.len() / 4], data)?))
            })
            .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
        let stated = [(KEY, self.key.clone()), (NETWORKS, self.digest())];
        let metadata = HashMap::from(stated.map(|(name, value)| (name.to_owned(), value)));
        Ok(safetensors::serialize(views, Some(metadata))?)
    }

    pub fn add(&mut self, phase: String, weights: Vec<f32>) {
        self.networks.insert(phase, weights);
    }

    /// How many networks are finished.
    pub fn networks(&self) -> usize {
        self.networks.len()
    }

    pub(crate) fn network(&self, phase: &str) -> Option<&[f32]> {
        self.networks.get(phase).map(Vec::as_slice)
    }
}
