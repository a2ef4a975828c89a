//! The CUDA driver in safe words. The only code that talks to it.
#![allow(unsafe_code, reason = "a foreign function interface; nothing unsafe leaves this module")]

mod api;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use api::{Api, Handle, Pointer};

/// A call that the driver refused.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{call}: {name} ({code})")]
pub(crate) struct CudaError {
    call: &'static str,
    name: String,
    code: i32,
}

impl CudaError {
    /// After these, the process can do nothing more on the GPU.
    pub(crate) fn is_sticky(&self) -> bool {
        matches!(self.code, 4 | 46 | 214 | 219 | 700 | 702 | 710 | 714..=721 | 999)
    }

    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.code == 2
    }

    /// More registers, threads or shared memory than there are.
    pub(crate) fn is_out_of_resources(&self) -> bool {
        matches!(self.code, 1 | 701)
    }
}

pub(crate) type Result<T> = std::result::Result<T, CudaError>;

/// Why a node has no usable driver.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoDriver {
    #[error("no NVIDIA driver on this node; install it, or use --backend cpu")]
    Missing(#[from] libloading::Error),
    #[error(
        "the NVIDIA driver finds no GPU; see whether CUDA_VISIBLE_DEVICES hides it, or use --backend cpu"
    )]
    NoGpu,
    #[error("the NVIDIA driver does not work")]
    Broken(#[source] CudaError),
}

impl From<CudaError> for NoDriver {
    fn from(error: CudaError) -> Self {
        const NO_DEVICE: i32 = 100;
        if error.code == NO_DEVICE { Self::NoGpu } else { Self::Broken(error) }
    }
}

/// The driver, initialised.
#[derive(Clone)]
pub(crate) struct Driver(Arc<Api>);

/// A GPU's memory in bytes: what could be allocated now, and all of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryInfo {
    pub(crate) free: u64,
    pub(crate) total: u64,
}

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

/// One GPU with its primary context, current on this thread; all work goes
/// through its default stream, so it runs in the order of the calls.
pub(crate) struct Gpu {
    driver: Driver,
    device: c_int,
}

impl Gpu {
    pub(crate) fn open(driver: &Driver, ordinal: u32) -> Result<Self> {
        let api = &driver.0;
        let (mut device, mut context) = (0, ptr::null_mut());
        // SAFETY: each writes one value; the context is retained until the process ends.
        unsafe {
            driver.check("cuDeviceGet", (api.device_get)(&mut device, ordinal as c_int))?;
            driver.check("cuDevicePrimaryCtxRetain", (api.context_retain)(&mut context, device))?;
            driver.check("cuCtxSetCurrent", (api.context_set)(context))?;
        }
        Ok(Self { driver: driver.clone(), device })
    }

    pub(crate) fn name(&self) -> Result<String> {
        self.text("cuDeviceGetName", self.driver.0.device_name)
    }

    /// Such as `0000:3b:00.0`; NVML knows the GPU by the same name.
    pub(crate) fn bus_id(&self) -> Result<String> {
        self.text("cuDeviceGetPCIBusId", self.driver.0.device_bus_id)
    }

    fn text(
        &self,
        call: &'static str,
        function: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
    ) -> Result<String> {
        let mut bytes = [0_u8; 256];
        // SAFETY: writes at most the given number of bytes, with a zero at the end.
        let code = unsafe { function(bytes.as_mut_ptr().cast(), bytes.len() as c_int, self.device) };
        self.check(call, code)?;
        let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    pub(crate) fn attribute(&self, attribute: Attribute) -> Result<u64> {
        let mut value = 0;
        // SAFETY: writes one integer.
        let code = unsafe { (self.driver.0.device_attribute)(&mut value, attribute as c_int, self.device) };
        self.check("cuDeviceGetAttribute", code)?;
        Ok(value.unsigned_abs().into())
    }

    pub(crate) fn memory(&self) -> Result<MemoryInfo> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two numbers.
        self.check("cuMemGetInfo", unsafe { (self.driver.0.memory_info)(&mut free, &mut total) })?;
        Ok(MemoryInfo { free: free as u64, total: total as u64 })
    }

    pub(crate) fn allocate(&self, bytes: u64) -> Result<Memory> {
        let mut pointer = 0;
        // SAFETY: writes one pointer. Zero bytes would be refused, so there is always one.
        let code = unsafe { (self.driver.0.allocate)(&mut pointer, bytes.max(1) as usize) };
        self.check("cuMemAlloc", code)?;
        Ok(Memory { driver: self.driver.clone(), pointer, bytes })
    }

    /// Queues filling memory with one byte.
    pub(crate) fn fill(&self, memory: &Memory, byte: u8) -> Result<()> {
        // SAFETY: the range is the allocation.
        let code = unsafe {
            (self.driver.0.fill_async)(memory.pointer, byte, memory.bytes as usize, ptr::null_mut())
        };
        self.check("cuMemsetD8Async", code)
    }

    /// Queues a copy from `from` to `to`, bytes counted from their starts.
    pub(crate) fn copy(&self, to: Slice<'_>, from: Slice<'_>) -> Result<()> {
        let bytes = to.bytes.min(from.bytes) as usize;
        // SAFETY: slices lie within their allocations.
        let code =
            unsafe { (self.driver.0.copy_async)(to.pointer(), from.pointer(), bytes, ptr::null_mut()) };
        self.check("cuMemcpyDtoDAsync", code)
    }

    /// Waits for all that is queued and reads memory as 32-bit numbers.
    pub(crate) fn read(&self, memory: &Memory) -> Result<Vec<u32>> {
        let mut values = vec![0_u32; (memory.bytes / 4) as usize];
        // SAFETY: writes as many bytes as the vector has, and as the allocation has.
        let code = unsafe {
            (self.driver.0.copy_to_host)(values.as_mut_ptr().cast(), memory.pointer, values.len() * 4)
        };
        self.check("cuMemcpyDtoH", code)?;
        Ok(values)
    }

    /// Waits for all that is queued.
    pub(crate) fn synchronize(&self) -> Result<()> {
        // SAFETY: takes nothing.
        self.check("cuCtxSynchronize", unsafe { (self.driver.0.synchronize)() })
    }

    /// Loads a kernel from its binary, ready for `shared` bytes of dynamic shared memory.
    pub(crate) fn load(&self, binary: &[u8], symbol: &str, shared: u32) -> Result<Function> {
        /// More than this must be asked for by name.
        const ORDINARY_SHARED: u32 = 48 << 10;
        const MAX_DYNAMIC_SHARED: c_int = 8;
        let api = &self.driver.0;
        let mut module = ptr::null_mut();
        // SAFETY: the binary is an ELF file that states its own size; a broken one is refused.
        let code = unsafe { (api.module_load)(&mut module, binary.as_ptr().cast()) };
        self.check("cuModuleLoadData", code)?;
        let mut function = Function { driver: self.driver.clone(), module, handle: ptr::null_mut() };
        let symbol = CString::new(symbol).unwrap_or_default();
        // SAFETY: the module was loaded above, the name ends with a zero byte.
        let code = unsafe { (api.module_function)(&mut function.handle, module, symbol.as_ptr()) };
        self.check("cuModuleGetFunction", code)?;
        if shared > ORDINARY_SHARED {
            // SAFETY: sets a number on the function found above.
            let code =
                unsafe { (api.function_attribute)(function.handle, MAX_DYNAMIC_SHARED, shared as c_int) };
            self.check("cuFuncSetAttribute", code)?;
        }
        Ok(function)
    }

    /// Queues a launch.
    ///
    /// The arguments must be those the kernel was compiled for; packs state the
    /// layout they were built with, and backends launch no other.
    pub(crate) fn launch(
        &self,
        function: &Function,
        grid: [u32; 2],
        threads: u32,
        shared: u32,
        arguments: &mut Arguments,
    ) -> Result<()> {
        let [x, y] = grid;
        let mut pointers = arguments.pointers();
        // SAFETY: every pointer leads to a value that lives across the call, in number and
        // size as the kernel of this layout takes them.
        let code = unsafe {
            (self.driver.0.launch)(
                function.handle,
                x,
                y,
                1,
                threads,
                1,
                1,
                shared,
                ptr::null_mut(),
                pointers.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        self.check("cuLaunchKernel", code)
    }

    pub(crate) fn event(&self) -> Result<Event> {
        let mut handle = ptr::null_mut();
        // SAFETY: writes one handle.
        self.check("cuEventCreate", unsafe { (self.driver.0.event_create)(&mut handle, 0) })?;
        Ok(Event { driver: self.driver.clone(), handle })
    }

    /// Queues taking the time.
    pub(crate) fn record(&self, event: &Event) -> Result<()> {
        // SAFETY: the event exists for as long as its owner does.
        self.check("cuEventRecord", unsafe { (self.driver.0.event_record)(event.handle, ptr::null_mut()) })
    }

    /// Milliseconds between two events that have passed.
    pub(crate) fn elapsed(&self, start: &Event, end: &Event) -> Result<f32> {
        let mut millis = 0.0;
        // SAFETY: writes one number.
        let code = unsafe { (self.driver.0.event_elapsed)(&mut millis, start.handle, end.handle) };
        self.check("cuEventElapsedTime", code)?;
        Ok(millis)
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<()> {
        self.driver.check(call, code)
    }
}

/// Memory of the GPU.
pub(crate) struct Memory {
    driver: Driver,
    pointer: Pointer,
    bytes: u64,
}

impl Memory {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A part of it.
    pub(crate) fn slice(&self, start: u64, bytes: u64) -> Slice<'_> {
        assert!(start + bytes <= self.bytes, "{start} + {bytes} of {}", self.bytes);
        Slice { memory: self, start, bytes }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated by this driver and freed once. An error here would only repeat an earlier one.
        let _ = unsafe { (self.driver.0.free)(self.pointer) };
    }
}

/// A part of some memory.
#[derive(Clone, Copy)]
pub(crate) struct Slice<'a> {
    memory: &'a Memory,
    start: u64,
    bytes: u64,
}

impl Slice<'_> {
    /// The address on the GPU.
    pub(crate) fn pointer(&self) -> u64 {
        self.memory.pointer + self.start
    }
}

/// A loaded kernel.
pub(crate) struct Function {
    driver: Driver,
    module: Handle,
    handle: Handle,
}

impl Drop for Function {
    fn drop(&mut self) {
        // SAFETY: loaded by this driver and unloaded once.
        let _ = unsafe { (self.driver.0.module_unload)(self.module) };
    }
}

/// A point in the queue.
pub(crate) struct Event {
    driver: Driver,
    handle: Handle,
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created by this driver and destroyed once.
        let _ = unsafe { (self.driver.0.event_destroy)(self.handle) };
    }
}

/// The arguments of a kernel, each in eight bytes whatever it uses of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arguments(Vec<u64>);

impl Arguments {
    pub(crate) fn pointer(mut self, value: u64) -> Self {
        self.0.push(value);
        self
    }

    pub(crate) fn i64(mut self, value: u64) -> Self {
        self.0.push(value);
        self
    }

    pub(crate) fn i32(mut self, value: u64) -> Self {
        self.0.push(u64::from(value as u32));
        self
    }

    pub(crate) fn f32(mut self, value: f32) -> Self {
        self.0.push(u64::from(value.to_bits()));
        self
    }

    /// Triton's own two pointers, which stand last and are not used.
    pub(crate) fn finish(mut self) -> Self {
        self.0.extend([0, 0]);
        self
    }

    fn pointers(&mut self) -> Vec<*mut c_void> {
        // On a little-endian machine the low bytes of each word are the value, whatever its size.
        self.0.iter_mut().map(|word| ptr::from_mut(word).cast()).collect()
    }
}

#[cfg(target_endian = "big")]
compile_error!("kernel arguments are passed as the low bytes of 64-bit words");
