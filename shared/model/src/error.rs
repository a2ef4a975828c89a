//! Why a model cannot be loaded, or cannot predict.

use diode_core::ids::{Digest, HardwareSlug};
use diode_core::{DType, Invalid, Op, Template};
use diode_numeric::Misfit;

/// Why a model cannot be loaded, or cannot predict.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    // Loading
    #[error("model file: got {bytes} bytes, expected at most {max}; this is not a Diode model")]
    TooLarge { bytes: usize, max: usize },

    #[error("model file: not a safetensors file: {0}")]
    NotSafetensors(safetensors::SafeTensorError),

    #[error("model file: got no `{key}` entry in the metadata, expected one that `diode train` writes")]
    NoMetadata { key: &'static str },

    #[error("model file: metadata is not readable: {0}; train the model again with this version of diode")]
    BadMetadata(serde_json::Error),

    #[error("feature set: got `{given}`, expected `{expected}`; update diode or choose another model")]
    UnknownFeatureSet { given: String, expected: &'static str },

    #[error(transparent)]
    Tensor(#[from] Misfit),

    #[error(
        "model file: its tensors have the digest {given}, its metadata says {expected}; \
         it was damaged or changed, get it again"
    )]
    Damaged { given: Digest, expected: Digest },

    // Answering
    #[error(
        "op: got {op}, which the model of {hardware} has not learnt; update diode or choose another model"
    )]
    NoServing { op: Op, hardware: HardwareSlug },

    #[error(
        "dtype: got {dtype}, for which {hardware} has no matrix unit; choose other hardware or another type"
    )]
    NoUnit { dtype: DType, hardware: String },

    #[error("config: got template {0}, expected a tiled Triton kernel; the model has no features for others")]
    NoFeatures(Template),

    #[error("hardware: {hardware} has no facts; a model needs the facts of the hardware it speaks of")]
    NoFacts { hardware: HardwareSlug },

    #[error(
        "dtype: got {dtype}, for which no peak rate of {hardware} is known; the model was trained on {trained}"
    )]
    NoPeak { dtype: DType, hardware: HardwareSlug, trained: String },

    #[error(transparent)]
    TooLargeForHardware(#[from] diode_core::hardware::TooLarge),

    #[error("prediction for config {label} is not a finite time; the model's weights are unusable")]
    NotFinite { label: String },

    #[error(transparent)]
    Invalid(#[from] Invalid),
}

// These messages contain their causes. As sources, the causes would be printed a second time.
impl From<safetensors::SafeTensorError> for ModelError {
    fn from(error: safetensors::SafeTensorError) -> Self {
        Self::NotSafetensors(error)
    }
}

impl From<serde_json::Error> for ModelError {
    fn from(error: serde_json::Error) -> Self {
        Self::BadMetadata(error)
    }
}
