//! What only NVIDIA's driver offers.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use super::api::Handle;
use super::{Description, Driver, Result};
use crate::devices::gpu::foreign::functions;

pub(super) const LIBRARIES: [&str; 1] = ["libcuda.so.1"];

functions! {
    /// The functions of CUDA's driver that HIP lacks, as far as they are called.
    Cuda {
        device_get = "cuDeviceGet" (*mut c_int, c_int);
        device_name = "cuDeviceGetName" (*mut c_char, c_int, c_int);
        device_attribute = "cuDeviceGetAttribute" (*mut c_int, c_int, c_int);
        context_retain = "cuDevicePrimaryCtxRetain" (*mut Handle, c_int);
        context_set = "cuCtxSetCurrent" (Handle);
        function_attribute = "cuFuncSetAttribute" (Handle, c_int, c_int);
    }
}

/// Numbers of the attributes that `cuDeviceGetAttribute` is asked for.
#[derive(Debug, Clone, Copy)]
enum Attribute {
    L2Bytes = 38,
    Major = 75,
    Minor = 76,
    Sms = 16,
}

impl Cuda {
    pub(super) fn describe(&self, driver: &Driver, device: c_int) -> Result<Description> {
        let mut bytes = [0_u8; 256];
        let call = &self.device_name;
        // SAFETY: writes at most the given number of bytes, with a zero at the end.
        let code = unsafe { (call.function)(bytes.as_mut_ptr().cast(), bytes.len() as c_int, device) };
        driver.check(call.name, code)?;
        let name = CStr::from_bytes_until_nul(&bytes).unwrap_or_default().to_string_lossy().into_owned();
        let ask = |attribute| self.attribute(driver, device, attribute);
        Ok(Description {
            name,
            arch: format!("sm_{}{}", ask(Attribute::Major)?, ask(Attribute::Minor)?),
            sms: ask(Attribute::Sms)?,
            cache_bytes: ask(Attribute::L2Bytes)?,
            memory_bytes: None,
        })
    }

    fn attribute(&self, driver: &Driver, device: c_int, attribute: Attribute) -> Result<u64> {
        let mut value = 0;
        let call = &self.device_attribute;
        // SAFETY: writes one integer.
        let code = unsafe { (call.function)(&mut value, attribute as c_int, device) };
        driver.check(call.name, code)?;
        Ok(value.unsigned_abs().into())
    }

    /// Makes a GPU's primary context current on this thread. The context is retained until the
    /// process ends.
    pub(super) fn use_device(&self, driver: &Driver, ordinal: c_int) -> Result<c_int> {
        let (mut device, mut context) = (0, ptr::null_mut());
        let (get, retain, set) = (&self.device_get, &self.context_retain, &self.context_set);
        // SAFETY: each writes one value.
        unsafe {
            driver.check(get.name, (get.function)(&mut device, ordinal))?;
            driver.check(retain.name, (retain.function)(&mut context, device))?;
            driver.check(set.name, (set.function)(context))?;
        }
        Ok(device)
    }

    /// Allows launches of a kernel with `shared` bytes of dynamic shared memory.
    pub(super) fn allow_shared(&self, driver: &Driver, function: Handle, shared: u32) -> Result<()> {
        /// A kernel that needs more bytes than this must be allowed to use them.
        const ORDINARY_SHARED: u32 = 48 << 10;
        const MAX_DYNAMIC_SHARED: c_int = 8;
        if shared <= ORDINARY_SHARED {
            return Ok(());
        }
        let call = &self.function_attribute;
        // SAFETY: sets a number on a function of a loaded module.
        let code = unsafe { (call.function)(function, MAX_DYNAMIC_SHARED, shared as c_int) };
        driver.check(call.name, code)
    }
}
