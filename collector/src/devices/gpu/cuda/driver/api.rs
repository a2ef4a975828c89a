//! The functions of the CUDA driver, found at run time: one program serves
//! nodes with and without a GPU, and nothing of CUDA is needed to build it.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libloading::Library;

use super::NoDriver;

pub(super) type Handle = *mut c_void;
pub(super) type Pointer = u64;

/// Declares the table of functions and how it is filled.
macro_rules! functions {
    ($($field:ident = $symbol:literal ($($argument:ty),*);)*) => {
        /// The driver's functions. Every one returns 0 or an error code.
        pub(super) struct Api {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
            // The pointers above are good for as long as the library stays loaded.
            _library: Library,
        }

        impl Api {
            fn resolve(library: Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the signatures are those of CUDA's driver API reference; the
                    // symbols with a version suffix have had them since CUDA 4.
                    $($field: unsafe { *library.get($symbol)? },)*
                    _library: library,
                })
            }
        }
    };
}

functions! {
    init = b"cuInit\0" (c_uint);
    driver_version = b"cuDriverGetVersion\0" (*mut c_int);
    device_count = b"cuDeviceGetCount\0" (*mut c_int);
    device_get = b"cuDeviceGet\0" (*mut c_int, c_int);
    device_name = b"cuDeviceGetName\0" (*mut c_char, c_int, c_int);
    device_attribute = b"cuDeviceGetAttribute\0" (*mut c_int, c_int, c_int);
    device_bus_id = b"cuDeviceGetPCIBusId\0" (*mut c_char, c_int, c_int);
    context_retain = b"cuDevicePrimaryCtxRetain\0" (*mut Handle, c_int);
    context_set = b"cuCtxSetCurrent\0" (Handle);
    synchronize = b"cuCtxSynchronize\0" ();
    memory_info = b"cuMemGetInfo_v2\0" (*mut usize, *mut usize);
    allocate = b"cuMemAlloc_v2\0" (*mut Pointer, usize);
    free = b"cuMemFree_v2\0" (Pointer);
    fill_async = b"cuMemsetD8Async\0" (Pointer, u8, usize, Handle);
    copy_async = b"cuMemcpyDtoDAsync_v2\0" (Pointer, Pointer, usize, Handle);
    copy_to_host = b"cuMemcpyDtoH_v2\0" (*mut c_void, Pointer, usize);
    module_load = b"cuModuleLoadData\0" (*mut Handle, *const c_void);
    module_unload = b"cuModuleUnload\0" (Handle);
    module_function = b"cuModuleGetFunction\0" (*mut Handle, Handle, *const c_char);
    function_attribute = b"cuFuncSetAttribute\0" (Handle, c_int, c_int);
    launch = b"cuLaunchKernel\0" (
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void
    );
    event_create = b"cuEventCreate\0" (*mut Handle, c_uint);
    event_record = b"cuEventRecord\0" (Handle, Handle);
    event_query = b"cuEventQuery\0" (Handle);
    event_elapsed = b"cuEventElapsedTime\0" (*mut f32, Handle, Handle);
    event_destroy = b"cuEventDestroy_v2\0" (Handle);
    error_name = b"cuGetErrorName\0" (c_int, *mut *const c_char);
}

impl Api {
    /// Loads the driver that this node has.
    pub(super) fn load() -> Result<Self, NoDriver> {
        // SAFETY: loading NVIDIA's driver runs its initialisers, which every CUDA program does.
        let library = unsafe { Library::new("libcuda.so.1") }.map_err(NoDriver::Missing)?;
        Self::resolve(library).map_err(NoDriver::TooOld)
    }
}
