//! The models in the full distribution.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

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
