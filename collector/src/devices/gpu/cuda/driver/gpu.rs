//! One GPU, and what can be asked of it.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use super::objects::{Event, Function, Memory, MemoryInfo, Slice};
use super::{Attribute, Driver, Result};
use crate::devices::gpu::arguments::Arguments;

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

    /// Whether the GPU has reached the point where the time was taken.
    pub(crate) fn has_passed(&self, event: &Event) -> Result<bool> {
        const NOT_READY: c_int = 600;
        // SAFETY: the event exists for as long as its owner does.
        match unsafe { (self.driver.0.event_query)(event.handle) } {
            NOT_READY => Ok(false),
            code => self.check("cuEventQuery", code).map(|()| true),
        }
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
