//! The functions that only NVIDIA's driver has.
#![allow(non_snake_case, reason = "the vendor names them")]

use std::ffi::{c_char, c_int};

use crate::memory::{put, put_text};
use crate::node::perform;

const INVALID: i32 = 1;

/// Declares functions. Each has a name for scripts and NVIDIA's name.
macro_rules! functions {
    ($($call:ident = $name:ident ($($argument:ident: $kind:ty),*) |$node:pat_param, $effect:pat_param| $body:block)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name($($argument: $kind),*) -> c_int {
                perform(stringify!($call), |$node, $effect| $body)
            }
        )*
    };
}

functions! {
    device_get = cuDeviceGet (device: *mut c_int, ordinal: c_int) |node, _| {
        if ordinal as usize >= node.script.gpus.len() {
            return Err(101);
        }
        put(device, ordinal);
        Ok(())
    }

    device_name = cuDeviceGetName (name: *mut c_char, room: c_int, device: c_int) |node, _| {
        let gpu = node.script.gpus.get(device as usize).ok_or(INVALID)?;
        put_text(name, room, &gpu.name);
        Ok(())
    }

    device_attribute = cuDeviceGetAttribute (value: *mut c_int, attribute: c_int, device: c_int) |node, _| {
        let gpu = node.script.gpus.get(device as usize).ok_or(INVALID)?;
        let [major, minor] = gpu.capability;
        put(value, match attribute {
            16 => 132,
            38 => gpu.l2_bytes,
            75 => major,
            76 => minor,
            _ => return Err(INVALID),
        });
        Ok(())
    }

    context = cuDevicePrimaryCtxRetain (context: *mut usize, device: c_int) |node, _| {
        node.hold(device as usize);
        put(context, 1 + device as usize);
        Ok(())
    }

    context_set = cuCtxSetCurrent (context: usize) |node, _| {
        node.current = context - 1;
        Ok(())
    }

    function_attribute = cuFuncSetAttribute (function: usize, attribute: c_int, value: c_int) |node, _| {
        const MAX_DYNAMIC_SHARED: c_int = 8;
        let most = node.gpu().shared;
        let (_, shared) = node.loaded(function)?;
        if attribute != MAX_DYNAMIC_SHARED || value as u32 > most {
            return Err(INVALID);
        }
        *shared = value as u32;
        Ok(())
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(code: c_int, name: *mut *const c_char) -> c_int {
    let known = match code {
        1 => c"CUDA_ERROR_INVALID_VALUE",
        2 => c"CUDA_ERROR_OUT_OF_MEMORY",
        3 => c"CUDA_ERROR_NOT_INITIALIZED",
        100 => c"CUDA_ERROR_NO_DEVICE",
        214 => c"CUDA_ERROR_ECC_UNCORRECTABLE",
        700 => c"CUDA_ERROR_ILLEGAL_ADDRESS",
        701 => c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        719 => c"CUDA_ERROR_LAUNCH_FAILED",
        802 => c"CUDA_ERROR_SYSTEM_NOT_READY",
        999 => c"CUDA_ERROR_UNKNOWN",
        _ => return INVALID,
    };
    put(name, known.as_ptr());
    0
}
