//! The functions that both vendors' drivers have, with equal arguments and equal codes.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::devices::gpu::foreign::functions;

pub(super) type Handle = *mut c_void;
pub(super) type Pointer = u64;

functions! {
    /// The driver's functions.
    Api {
        init = "cuInit" / "hipInit" (c_uint);
        driver_version = "cuDriverGetVersion" / "hipDriverGetVersion" (*mut c_int);
        device_count = "cuDeviceGetCount" / "hipGetDeviceCount" (*mut c_int);
        device_bus_id = "cuDeviceGetPCIBusId" / "hipDeviceGetPCIBusId" (*mut c_char, c_int, c_int);
        synchronize = "cuCtxSynchronize" / "hipDeviceSynchronize" ();
        memory_info = "cuMemGetInfo_v2" / "hipMemGetInfo" (*mut usize, *mut usize);
        allocate = "cuMemAlloc_v2" / "hipMalloc" (*mut Pointer, usize);
        free = "cuMemFree_v2" / "hipFree" (Pointer);
        fill_async = "cuMemsetD8Async" / "hipMemsetD8Async" (Pointer, u8, usize, Handle);
        copy_async = "cuMemcpyDtoDAsync_v2" / "hipMemcpyDtoDAsync" (Pointer, Pointer, usize, Handle);
        copy_to_host = "cuMemcpyDtoH_v2" / "hipMemcpyDtoH" (*mut c_void, Pointer, usize);
        module_load = "cuModuleLoadData" / "hipModuleLoadData" (*mut Handle, *const c_void);
        module_unload = "cuModuleUnload" / "hipModuleUnload" (Handle);
        module_function = "cuModuleGetFunction" / "hipModuleGetFunction" (*mut Handle, Handle, *const c_char);
        launch = "cuLaunchKernel" / "hipModuleLaunchKernel" (
            Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void
        );
        event_create = "cuEventCreate" / "hipEventCreateWithFlags" (*mut Handle, c_uint);
        event_record = "cuEventRecord" / "hipEventRecord" (Handle, Handle);
        event_query = "cuEventQuery" / "hipEventQuery" (Handle);
        event_elapsed = "cuEventElapsedTime" / "hipEventElapsedTime" (*mut f32, Handle, Handle);
        event_destroy = "cuEventDestroy_v2" / "hipEventDestroy" (Handle);
        error_name = "cuGetErrorName" / "hipDrvGetErrorName" (c_int, *mut *const c_char);
    }
}
