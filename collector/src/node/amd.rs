//! AMD GPUs, as HIP lists them.

use diode_core::hardware::Hardware;

use super::Gpu;
use crate::devices::gpu::vendor::Vendor;
use crate::devices::gpu::{Driver, NoDriver};

/// The version that the kernel module states.
const VERSION: &str = "/sys/module/amdgpu/version";

/// This node's AMD GPUs. There are none if HIP is not installed.
pub(super) fn gpus() -> anyhow::Result<Vec<Gpu>> {
    let driver = match Driver::load(Vendor::Amd) {
        Err(NoDriver::Missing(..) | NoDriver::NoGpu(_)) => return Ok(Vec::new()),
        loaded => loaded?,
    };
    let version = std::fs::read_to_string(VERSION).ok().map(|text| text.trim().to_owned());
    let describe = |ordinal| {
        let described = driver.describe(ordinal)?;
        Ok(Gpu {
            hardware: Hardware::from_name(&described.name)?,
            memory_mib: described.memory_bytes.map(|bytes| bytes >> 20),
            driver: version.clone(),
            power_limit_watts: None,
        })
    };
    (0..driver.device_count()?).map(describe).collect()
}
