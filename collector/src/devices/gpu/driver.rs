//! The vendors' drivers behind one safe interface. No other module calls the drivers. Their functions are found at run
//! time, so one program serves nodes with and without a GPU, and is built without any vendor's files.
#![allow(unsafe_code, reason = "a foreign function interface; nothing unsafe leaves this module")]

mod gpu;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;

use libloading::Library;

use crate::devices::gpu::GpuVendor;

pub(crate) use crate::devices::gpu::driver::gpu::{Event, Function, Gpu, Memory, MemoryInfo, Slice};

/// A function and its name in the library.
#[derive(Clone, Copy)]
pub(super) struct Call<F> {
    pub(super) name: &'static str,
    pub(super) function: F,
}

/// Declares a table of functions and how to fill it. A function has one name, or two if the vendors' differ:
/// NVIDIA's / AMD's. Every function returns 0 or an error code.
macro_rules! functions {
    ($(#[$about:meta])* $table:ident { $($field:ident = $name:literal ($($argument:ty),* $(,)?);)* }) => {
        $crate::devices::gpu::driver::functions! {
            $(#[$about])*
            $table { $($field = $name / $name ($($argument),*);)* }
        }
    };
    ($(#[$about:meta])* $table:ident { $($field:ident = $cuda:literal / $hip:literal ($($argument:ty),* $(,)?);)* }) => {
        $(#[$about])*
        struct $table {
            $($field: $crate::devices::gpu::driver::Call<
                unsafe extern "C" fn($($argument),*) -> std::ffi::c_int
            >,)*
            // The pointers above are valid for as long as the library stays loaded.
            _library: libloading::Library,
        }

        impl $table {
            fn resolve(
                library: libloading::Library,
                vendor: $crate::devices::gpu::GpuVendor,
            ) -> std::result::Result<Self, libloading::Error> {
                use $crate::devices::gpu::GpuVendor;
                Ok(Self {
                    $($field: {
                        let name = match vendor {
                            GpuVendor::Nvidia => $cuda,
                            GpuVendor::Amd => $hip,
                        };
                        // SAFETY: the signatures are those in the vendors' references, which agree.
                        let function = unsafe { *library.get(name.as_bytes())? };
                        $crate::devices::gpu::driver::Call { name, function }
                    },)*
                    _library: library,
                })
            }
        }
    };
}

pub(super) use functions;

/// Loads the first of the library's `names` that is found: only in `folder` if it is given, otherwise where the system
/// looks for libraries and then in `installed`, where the vendor's installer puts them.
pub(super) fn open_library(
    names: &[&str],
    folder: Option<&Path>,
    installed: Option<&str>,
) -> std::result::Result<Library, libloading::Error> {
    let folders = folder.map_or_else(
        || [PathBuf::new()].into_iter().chain(installed.map(PathBuf::from)).collect(),
        |folder| vec![folder.to_owned()],
    );
    let mut paths = folders.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    // SAFETY: loading a vendor's library runs its initialisers, as in every program that uses the library.
    let load = |path: PathBuf| unsafe { Library::new(path) };
    let first = load(paths.next().unwrap_or_default());
    // If none loads, the first error is returned, because it is about the newest version.
    first.or_else(|error| paths.find_map(|path| load(path).ok()).ok_or(error))
}

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
    pub(crate) fn load(vendor: GpuVendor) -> std::result::Result<Self, NoDriver> {
        let missing = |error| NoDriver::Missing(vendor, error);
        let old = |error| NoDriver::TooOld(vendor, error);
        let open = || match vendor {
            GpuVendor::Nvidia => open_library(&CUDA_LIBRARIES, None, None),
            GpuVendor::Amd => open_library(&HIP_LIBRARIES, None, Some(HIP_FOLDER)),
        };
        let api = Api::resolve(open().map_err(missing)?, vendor).map_err(old)?;
        let library = open().map_err(missing)?;
        let own = match vendor {
            GpuVendor::Nvidia => Own::Cuda(Cuda::resolve(library, vendor).map_err(old)?),
            GpuVendor::Amd => Own::Hip(Hip::resolve(library, vendor).map_err(old)?),
        };
        let driver = Self(Arc::new(Loaded { api, own }));
        // SAFETY: takes flags, and none are given.
        let started = driver.check(&driver.0.api.init, |call| unsafe { call(0) });
        started.map_err(|error| NoDriver::because(vendor, error))?;
        Ok(driver)
    }

    pub(crate) fn device_count(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: writes one integer.
        self.check(&self.0.api.device_count, |call| unsafe { call(&mut count) })?;
        Ok(count.unsigned_abs())
    }

    /// The version that the driver supports: 13000 for CUDA 13.0, 60443484 for HIP 6.4.
    pub(crate) fn version(&self) -> Result<i32> {
        let mut version = 0;
        // SAFETY: writes one integer.
        self.check(&self.0.api.driver_version, |call| unsafe { call(&mut version) })?;
        Ok(version)
    }

    /// Describes a GPU without using it.
    pub(crate) fn describe(&self, ordinal: u32) -> Result<Description> {
        match &self.0.own {
            Own::Cuda(cuda) => cuda.describe(self, ordinal as c_int),
            Own::Hip(hip) => hip.describe(self, ordinal as c_int),
        }
    }

    /// Calls a function of the driver, and turns its code into an error.
    fn check<F: Copy>(&self, call: &Call<F>, run: impl FnOnce(F) -> c_int) -> Result<()> {
        self.judge(call.name, run(call.function))
    }

    fn judge(&self, call: &'static str, code: c_int) -> Result<()> {
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

/// A call that the driver refused. Both vendors use the same codes.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{call}: {name} ({code})")]
pub(crate) struct DriverError {
    call: &'static str,
    name: String,
    code: i32,
}

impl DriverError {
    /// Whether the process can do nothing more on the GPU after this error.
    pub(crate) fn is_sticky(&self) -> bool {
        matches!(self.code, 4 | 46 | 214 | 219 | 700 | 702 | 710 | 714..=721 | 999)
    }

    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.code == 2
    }

    /// Whether a kernel needs more registers, threads or shared memory than the GPU has.
    pub(crate) fn is_out_of_resources(&self) -> bool {
        matches!(self.code, 1 | 701)
    }
}

pub(crate) type Result<T> = std::result::Result<T, DriverError>;

/// Why a node has no usable driver.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoDriver {
    #[error("no {} on this node; install it, or use --backend cpu", .0.driver())]
    Missing(GpuVendor, #[source] libloading::Error),
    #[error("the {} lacks a function that diode calls; install a newer one, or use --backend cpu", .0.driver())]
    TooOld(GpuVendor, #[source] libloading::Error),
    #[error("the {} finds no GPU; see whether {} it, or use --backend cpu", .0.driver(), .0.hiding())]
    NoGpu(GpuVendor),
    /// The node has no GPU with this number. A GPU with this number may have been lost.
    #[error("device {device}: this node has {count}, counted from 0")]
    Fewer { device: u32, count: u32 },
    #[error("the {} does not work", .0.driver())]
    Broken(GpuVendor, #[source] DriverError),
}

impl NoDriver {
    /// Whether the cause may pass by itself, such as an update of the driver or a reset of the GPU.
    pub(crate) fn may_pass(&self) -> bool {
        !matches!(self, Self::TooOld(..))
    }

    fn because(vendor: GpuVendor, error: DriverError) -> Self {
        const NO_DEVICE: i32 = 100;
        if error.code == NO_DEVICE { Self::NoGpu(vendor) } else { Self::Broken(vendor, error) }
    }
}

type Handle = *mut c_void;
type Pointer = u64;

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
        copy_to_device = "cuMemcpyHtoD_v2" / "hipMemcpyHtoD" (Pointer, *const c_void, usize);
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

const CUDA_LIBRARIES: [&str; 1] = ["libcuda.so.1"];

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
    fn describe(&self, driver: &Driver, device: c_int) -> Result<Description> {
        let mut bytes = [0_u8; 256];
        // SAFETY: writes at most the given number of bytes, with a zero at the end.
        driver.check(&self.device_name, |call| unsafe {
            call(bytes.as_mut_ptr().cast(), bytes.len() as c_int, device)
        })?;
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
        // SAFETY: writes one integer.
        driver
            .check(&self.device_attribute, |call| unsafe { call(&mut value, attribute as c_int, device) })?;
        Ok(value.unsigned_abs().into())
    }

    /// Makes a GPU's primary context current on this thread. The context is retained until the
    /// process ends.
    fn use_device(&self, driver: &Driver, ordinal: c_int) -> Result<c_int> {
        let (mut device, mut context) = (0, ptr::null_mut());
        // SAFETY: writes one value.
        driver.check(&self.device_get, |call| unsafe { call(&mut device, ordinal) })?;
        // SAFETY: writes one value.
        driver.check(&self.context_retain, |call| unsafe { call(&mut context, device) })?;
        // SAFETY: takes the context that was retained.
        driver.check(&self.context_set, |call| unsafe { call(context) })?;
        Ok(device)
    }

    /// Allows launches of a kernel with `shared` bytes of dynamic shared memory.
    fn allow_shared(&self, driver: &Driver, function: Handle, shared: u32) -> Result<()> {
        /// A kernel that needs more bytes than this must be allowed to use them.
        const ORDINARY_SHARED: u32 = 48 << 10;
        const MAX_DYNAMIC_SHARED: c_int = 8;
        if shared <= ORDINARY_SHARED {
            return Ok(());
        }
        // SAFETY: sets a number on a function of a loaded module.
        driver.check(&self.function_attribute, |call| unsafe {
            call(function, MAX_DYNAMIC_SHARED, shared as c_int)
        })
    }
}

/// The libraries of ROCm 7 and 6.
const HIP_LIBRARIES: [&str; 2] = ["libamdhip64.so.7", "libamdhip64.so.6"];
const HIP_FOLDER: &str = "/opt/rocm/lib";

functions! {
    /// The functions of HIP that CUDA's driver lacks, as far as they are called. They were written from ROCm's
    /// headers, and no AMD GPU has run them yet.
    Hip {
        set_device = "hipSetDevice" (c_int);
        properties = "hipGetDevicePropertiesR0600" (*mut Properties, c_int);
    }
}

/// `hipDeviceProp_tR0600`. Only some fields are read; there is room for the fields of later
/// versions.
#[repr(C, align(8))]
struct Properties([u8; 4096]);

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
    fn describe(&self, driver: &Driver, device: c_int) -> Result<Description> {
        let mut properties = Properties([0; 4096]);
        // SAFETY: writes the structure, for which there is more than enough room.
        driver.check(&self.properties, |call| unsafe { call(&mut properties, device) })?;
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
    fn use_device(&self, driver: &Driver, ordinal: c_int) -> Result<c_int> {
        // SAFETY: takes a number.
        driver.check(&self.set_device, |call| unsafe { call(ordinal) })?;
        Ok(ordinal)
    }
}
