//! What is NVIDIA's alone: the driver, its management library and cuBLAS.

pub(super) mod cublas;
pub(super) mod driver;
pub(super) mod nvml;
