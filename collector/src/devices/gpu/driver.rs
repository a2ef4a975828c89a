//! The vendors' drivers behind one safe interface. No other module calls the drivers.
#![allow(unsafe_code, reason = "a foreign function interface; nothing unsafe leaves this module")]

mod api;
mod cuda;
mod error;
mod gpu;
mod hip;
mod objects;

use std::ffi::{CStr, c_char, c_int};
use std::ptr;
use std::sync::Arc;

use super::foreign;
use super::vendor::Vendor;
use api::Api;
use cuda::Cuda;
pub(crate) use error::{DriverError, NoDriver, Result};
pub(crate) use gpu::Gpu;
use hip::Hip;
pub(crate) use objects::{Event, Function, Memory, MemoryInfo, Slice};

/// A vendor's driver, initialised.
#[derive(Clone)]
pub(crate) struct Driver(Arc<Loaded>);

struct Loaded {
    api: Api,
    own: Own,
}

/// The functions that only one vendor has.
enum Own {
    Cuda(Cuda),
    Hip(Hip),
}

/// The facts that a driver states about a GPU.
#[derive(Debug, Clone)]
pub(crate) struct Description {
    pub(crate) name: String,
    /// The architecture as packs name it: `sm_90`, `gfx942`.
    pub(crate) arch: String,
    pub(crate) sms: u64,
    /// The size of the last cache before memory.
    pub(crate) cache_bytes: u64,
    /// `None` for NVIDIA GPUs, whose memory is read in other ways.
    pub(crate) memory_bytes: Option<u64>,
}

impl Driver {
    pub(crate) fn load(vendor: Vendor) -> std::result::Result<Self, NoDriver> {
        let missing = |error| NoDriver::Missing(vendor, error);
        let old = |error| NoDriver::TooOld(vendor, error);
        let open = || match vendor {
            Vendor::Nvidia => foreign::open(&cuda::LIBRARIES, None, None),
            Vendor::Amd => foreign::open(&hip::LIBRARIES, None, Some(hip::INSTALLED)),
        };
        let api = Api::resolve(open().map_err(missing)?, vendor).map_err(old)?;
        let library = open().map_err(missing)?;
        let own = match vendor {
            Vendor::Nvidia => Own::Cuda(Cuda::resolve(library).map_err(old)?),
            Vendor::Amd => Own::Hip(Hip::resolve(library).map_err(old)?),
        };
        let driver = Self(Arc::new(Loaded { api, own }));
        let init = &driver.0.api.init;
        // SAFETY: takes flags, and none are given.
        let started = driver.check(init.name, unsafe { (init.function)(0) });
        started.map_err(|error| NoDriver::because(vendor, error))?;
        Ok(driver)
    }

    pub(crate) fn device_count(&self) -> Result<u32> {
        let mut count = 0;
        let call = &self.0.api.device_count;
        // SAFETY: writes one integer.
        self.check(call.name, unsafe { (call.function)(&mut count) })?;
        Ok(count.unsigned_abs())
    }

    /// The version that the driver supports: 13000 for CUDA 13.0, 60443484 for HIP 6.4.
    pub(crate) fn version(&self) -> Result<i32> {
        let mut version = 0;
        let call = &self.0.api.driver_version;
        // SAFETY: writes one integer.
        self.check(call.name, unsafe { (call.function)(&mut version) })?;
        Ok(version)
    }

    /// Describes a GPU without using it.
    pub(crate) fn describe(&self, ordinal: u32) -> Result<Description> {
        match &self.0.own {
            Own::Cuda(cuda) => cuda.describe(self, ordinal as c_int),
            Own::Hip(hip) => hip.describe(self, ordinal as c_int),
        }
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let mut name: *const c_char = ptr::null();
        // SAFETY: on success, writes a pointer to a text that lives as long as the driver.
        let known = unsafe { (self.0.api.error_name.function)(code, &mut name) } == 0 && !name.is_null();
        let name = if known {
            // SAFETY: see above; the text ends with a zero byte.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
        } else {
            "unknown error".to_owned()
        };
        Err(DriverError { call, name, code })
    }
}
