//! The functions that only AMD's driver has.
#![allow(non_snake_case, reason = "the vendor names them")]

use std::ffi::{c_char, c_int};

use crate::memory::{put, put_text};
use crate::node::perform;

const INVALID: i32 = 1;
const INVALID_DEVICE: i32 = 101;

#[unsafe(no_mangle)]
extern "C" fn hipSetDevice(device: c_int) -> c_int {
    perform("context", |node, _| {
        if device as usize >= node.script.gpus.len() {
            return Err(INVALID_DEVICE);
        }
        node.hold(device as usize);
        Ok(())
    })
}

/// Writes the fields of `hipDeviceProp_tR0600` that `diode` reads, at the offsets of ROCm's header.
#[unsafe(no_mangle)]
extern "C" fn hipGetDevicePropertiesR0600(properties: *mut u8, device: c_int) -> c_int {
    const SIZE: usize = 1472;
    perform("device_properties", |node, _| {
        let gpu = node.script.gpus.get(device as usize).ok_or(INVALID_DEVICE)?;
        // SAFETY: the caller gives enough room for the structure.
        unsafe { properties.write_bytes(0, SIZE) };
        // SAFETY: all offsets lie within the structure.
        let at = |offset: usize| unsafe { properties.add(offset) };
        put_text(at(0).cast(), 256, &gpu.name);
        put(at(288).cast::<u64>(), gpu.memory);
        put(at(388).cast::<c_int>(), 304);
        put(at(616).cast::<c_int>(), gpu.l2_bytes);
        put_text(at(1160).cast(), 256, gpu.arch.as_deref().unwrap_or_default());
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn hipDrvGetErrorName(code: c_int, name: *mut *const c_char) -> c_int {
    let known = match code {
        1 => c"hipErrorInvalidValue",
        2 => c"hipErrorOutOfMemory",
        3 => c"hipErrorNotInitialized",
        100 => c"hipErrorNoDevice",
        214 => c"hipErrorECCNotCorrectable",
        700 => c"hipErrorIllegalAddress",
        701 => c"hipErrorLaunchOutOfResources",
        719 => c"hipErrorLaunchFailure",
        802 => c"hipErrorSystemNotReady",
        999 => c"hipErrorUnknown",
        _ => return INVALID,
    };
    put(name, known.as_ptr());
    0
}
