use diode_core::hardware::Hardware;
use serde::Serialize;

/// One GPU of the node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Gpu {
    pub(crate) hardware: Hardware,
    pub(crate) memory_mib: Option<u64>,
    pub(crate) driver: Option<String>,
    pub(crate) power_limit_watts: Option<f64>,
}
