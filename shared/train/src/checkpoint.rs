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

/// What the file holds of each network. Files of another form are those of another training.
const FORM: &str = "weights and losses";

/// What comes before a phase in the name of its losses in the file.
const LOSSES_OF: &str = "losses of ";

/// A network that was trained to the end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LearntNetwork {
    pub weights: Vec<f32>,
    /// The loss of each epoch, in order.
    pub losses: Vec<f32>,
}

/// Finished networks, by their phase of the training.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    key: String,
    networks: BTreeMap<String, LearntNetwork>,
}

impl Checkpoint {
    /// An empty checkpoint for a training.
    pub fn new(set: &TrainingSet, plan: &Plan) -> Self {
        let (digest, version) = (set.digest(), env!("CARGO_PKG_VERSION"));
        let key = format!("{digest} {:?} {} {version} {FORM}", plan.options, plan.folds);
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
        for (name, view) in SafeTensors::deserialize(bytes)?.iter() {
            let (values, _) = view.data().as_chunks::<4>();
            let values = values.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
            let losses_of = name.strip_prefix(LOSSES_OF);
            let network = read.networks.entry(losses_of.unwrap_or(name).to_owned()).or_default();
            if losses_of.is_some() {
                network.losses = values;
            } else {
                network.weights = values;
            }
        }
        if stated(NETWORKS) != Some(&read.digest()) {
            return Err(TrainError::DamagedCheckpoint);
        }
        self.networks.append(&mut read.networks);
        Ok(())
    }

    fn digest(&self) -> String {
        let mut all = Vec::new();
        for (name, data) in self.tensors() {
            all.extend_from_slice(name.as_bytes());
            all.extend(data);
        }
        Digest::of(&all).to_string()
    }

    /// The values that the file holds, each with its name there.
    fn tensors(&self) -> impl Iterator<Item = (String, Vec<u8>)> {
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.networks.iter().flat_map(move |(phase, LearntNetwork { weights, losses })| {
            [(phase.clone(), bytes(weights)), (format!("{LOSSES_OF}{phase}"), bytes(losses))]
        })
    }

    pub fn to_bytes(&self) -> Result<Vec<u8>, TrainError> {
        let data: Vec<(String, Vec<u8>)> = self.tensors().collect();
        let views = data
            .iter()
            .map(|(name, data)| Ok((name.as_str(), TensorView::new(Dtype::F32, vec![data.len() / 4], data)?)))
            .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
        let stated = [(KEY, self.key.clone()), (NETWORKS, self.digest())];
        let metadata = HashMap::from(stated.map(|(name, value)| (name.to_owned(), value)));
        Ok(safetensors::serialize(views, Some(metadata))?)
    }

    pub fn add(&mut self, phase: String, network: LearntNetwork) {
        self.networks.insert(phase, network);
    }

    /// How many networks are finished.
    pub fn networks(&self) -> usize {
        self.networks.len()
    }

    pub(crate) fn network(&self, phase: &str) -> Option<&LearntNetwork> {
        self.networks.get(phase)
    }
}
