//! The CUDA driver behind a safe interface. No other code calls it.
#![allow(unsafe_code, reason = "a foreign function interface; nothing unsafe leaves this module")]

mod api;
mod error;
mod gpu;
mod objects;

use std::ffi::{CStr, c_char, c_int};
use std::ptr;
use std::sync::Arc;

use api::Api;
pub(crate) use error::{CudaError, NoDriver, Result};
pub(crate) use gpu::Gpu;
pub(crate) use objects::{Event, Function, Memory, MemoryInfo, Slice};

/// The driver, initialised.
#[derive(Clone)]
pub(crate) struct Driver(Arc<Api>);

/// What `cuDeviceGetAttribute` is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Attribute {
    L2Bytes = 38,
    Major = 75,
    Minor = 76,
    Sms = 16,
}

impl Driver {
    pub(crate) fn load() -> std::result::Result<Self, NoDriver> {
        let driver = Self(Arc::new(Api::load()?));
        // SAFETY: takes flags, of which there are none.
        driver.check("cuInit", unsafe { (driver.0.init)(0) })?;
        Ok(driver)
    }

    pub(crate) fn device_count(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: writes one integer.
        self.check("cuDeviceGetCount", unsafe { (self.0.device_count)(&mut count) })?;
        Ok(count.unsigned_abs())
    }

    /// The version of CUDA that the driver supports: 13000 for 13.0.
    pub(crate) fn version(&self) -> Result<i32> {
        let mut version = 0;
        // SAFETY: writes one integer.
        self.check("cuDriverGetVersion", unsafe { (self.0.driver_version)(&mut version) })?;
        Ok(version)
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let mut name: *const c_char = ptr::null();
        // SAFETY: on success, writes a pointer to a text that lives as long as the driver.
        let known = unsafe { (self.0.error_name)(code, &mut name) } == 0 && !name.is_null();
        let name = if known {
            // SAFETY: see above; the text ends with a zero byte.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
        } else {
            "unknown error".to_owned()
        };
        Err(CudaError { call, name, code })
    }
}
