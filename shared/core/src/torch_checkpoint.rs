//! A trained network as another program saved it: named tensors and a few settings. The model crate
//! interprets them.

use std::collections::BTreeMap;

/// What a torch checkpoint holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TorchCheckpoint {
    /// The weights, under the names of the network's parts.
    pub tensors: BTreeMap<String, SavedTensor>,
    /// The settings that are saved with the weights, such as the widths of layers.
    pub settings: BTreeMap<String, Setting>,
}

/// A tensor with its values in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedTensor {
    pub shape: Vec<usize>,
    pub values: SavedValues,
}

/// The element types that checkpoints have.
#[derive(Debug, Clone, PartialEq)]
pub enum SavedValues {
    Float32(Vec<f32>),
    /// Counters, such as the number of batches seen.
    Int64(Vec<i64>),
}

/// One setting.
#[derive(Debug, Clone, PartialEq)]
pub enum Setting {
    Nothing,
    Flag(bool),
    Whole(i64),
    Real(f64),
    Text(String),
    Wholes(Vec<i64>),
}
