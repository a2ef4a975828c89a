//! What only AMD's driver offers. It was written from ROCm's headers, and no AMD GPU has run it
//! yet.

use std::ffi::{CStr, c_int};

use super::{Description, Driver, Result};
use crate::devices::gpu::foreign::functions;

/// The libraries of ROCm 7 and 6.
pub(super) const LIBRARIES: [&str; 2] = ["libamdhip64.so.7", "libamdhip64.so.6"];
pub(super) const INSTALLED: &str = "/opt/rocm/lib";

functions! {
    /// The functions of HIP that CUDA's driver lacks, as far as they are called.
    Hip {
        set_device = "hipSetDevice" (c_int);
        properties = "hipGetDevicePropertiesR0600" (*mut Properties, c_int);
    }
}

/// `hipDeviceProp_tR0600`. Only some fields are read; there is room for the fields of later
/// versions.
#[repr(C, align(8))]
pub(super) struct Properties([u8; 4096]);

impl Properties {
    const NAME: usize = 0;
    const MEMORY_BYTES: usize = 288;
    const SMS: usize = 388;
    const L2_BYTES: usize = 616;
    const ARCH: usize = 1160;

    fn text(&self, at: usize) -> String {
        let bytes = &self.0[at..at + 256];
        CStr::from_bytes_until_nul(bytes).unwrap_or_default().to_string_lossy().into_owned()
    }

    /// A number that takes `size` bytes.
    fn number(&self, at: usize, size: usize) -> u64 {
        self.0[at..at + size].iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
    }
}

/// The Infinity Cache of the MI300 line, between the L2 caches and memory. HIP states the L2 only.
const INFINITY_CACHE: u64 = 256 << 20;

impl Hip {
    pub(super) fn describe(&self, driver: &Driver, device: c_int) -> Result<Description> {
        let mut properties = Properties([0; 4096]);
        let call = &self.properties;
        // SAFETY: writes the structure, for which there is more than enough room.
        driver.check(call.name, unsafe { (call.function)(&mut properties, device) })?;
        // HIP gives `gfx942:sramecc+:xnack-`, for example. Packs serve the architecture with any
        // such settings.
        let arch = properties.text(Properties::ARCH);
        let arch = arch.split(':').next().unwrap_or_default().to_owned();
        let name = properties.text(Properties::NAME);
        // If the system's list of devices is old, HIP gives a name without the product.
        let name = if name.contains("Instinct") { name } else { format!("AMD Instinct {arch}") };
        let l2_bytes = properties.number(Properties::L2_BYTES, 4);
        let cache_bytes = if arch == "gfx942" { INFINITY_CACHE.max(l2_bytes) } else { l2_bytes };
        let (sms, memory) =
            (properties.number(Properties::SMS, 4), properties.number(Properties::MEMORY_BYTES, 8));
        Ok(Description { name, arch, sms, cache_bytes, memory_bytes: Some(memory) })
    }

    /// Makes a GPU current on this thread.
    pub(super) fn use_device(&self, driver: &Driver, ordinal: c_int) -> Result<c_int> {
        let call = &self.set_device;
        // SAFETY: takes a number.
        driver.check(call.name, unsafe { (call.function)(ordinal) })?;
        Ok(ordinal)
    }
}
