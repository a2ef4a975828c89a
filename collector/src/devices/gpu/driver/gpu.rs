//! One GPU and the operations on it.

use std::ffi::{CStr, CString, c_int};
use std::ptr;

use crate::devices::gpu::driver::{Api, Call, Description, Driver, Handle, Own, Pointer, Result};
use crate::devices::gpu::operands::Arguments;

/// One GPU, current on this thread. All work goes through its default stream, so it runs in the order of the calls.
pub(crate) struct Gpu {
    driver: Driver,
    device: c_int,
}

impl Gpu {
    pub(crate) fn open(driver: &Driver, ordinal: u32) -> Result<Self> {
        let device = match &driver.0.own {
            Own::Cuda(cuda) => cuda.use_device(driver, ordinal as c_int),
            Own::Hip(hip) => hip.use_device(driver, ordinal as c_int),
        }?;
        Ok(Self { driver: driver.clone(), device })
    }

    pub(crate) fn describe(&self) -> Result<Description> {
        self.driver.describe(self.device as u32)
    }

    /// The GPU's address on the bus, such as `0000:3b:00.0`. Management libraries use the same address.
    pub(crate) fn bus_id(&self) -> Result<String> {
        let mut bytes = [0_u8; 256];
        // SAFETY: writes at most the given number of bytes, with a zero at the end.
        self.check(&self.api().device_bus_id, |call| unsafe {
            call(bytes.as_mut_ptr().cast(), bytes.len() as c_int, self.device)
        })?;
        let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    pub(crate) fn memory(&self) -> Result<MemoryInfo> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two numbers.
        self.check(&self.api().memory_info, |call| unsafe { call(&mut free, &mut total) })?;
        Ok(MemoryInfo { free: free as u64, total: total as u64 })
    }

    pub(crate) fn allocate(&self, bytes: u64) -> Result<Memory> {
        let mut pointer = 0;
        // SAFETY: writes one pointer. The driver refuses an allocation of zero bytes, so at least one byte is asked
        // for.
        self.check(&self.api().allocate, |call| unsafe { call(&mut pointer, bytes.max(1) as usize) })?;
        Ok(Memory { driver: self.driver.clone(), pointer, bytes })
    }

    /// Queues filling the memory with a byte.
    pub(crate) fn fill(&self, memory: &Memory, byte: u8) -> Result<()> {
        // SAFETY: the range is the whole allocation.
        self.check(&self.api().fill_async, |call| unsafe {
            call(memory.pointer, byte, memory.bytes as usize, ptr::null_mut())
        })
    }

    /// Queues a copy from `from` to `to`. It copies as many bytes as the shorter of the two has.
    pub(crate) fn copy(&self, to: Slice<'_>, from: Slice<'_>) -> Result<()> {
        let bytes = to.bytes.min(from.bytes) as usize;
        // SAFETY: slices lie within their allocations.
        self.check(&self.api().copy_async, |call| unsafe {
            call(to.pointer(), from.pointer(), bytes, ptr::null_mut())
        })
    }

    /// Writes 32-bit numbers to the start of an allocation.
    pub(crate) fn write(&self, memory: &Memory, values: &[u32]) -> Result<()> {
        let bytes = size_of_val(values);
        assert!(bytes as u64 <= memory.bytes, "{bytes} of {}", memory.bytes);
        // SAFETY: reads as many bytes as the slice has. The allocation has at least as many.
        self.check(&self.api().copy_to_device, |call| unsafe {
            call(memory.pointer, values.as_ptr().cast(), bytes)
        })
    }

    /// Waits for all queued work, then reads memory as 32-bit numbers.
    pub(crate) fn read(&self, memory: &Memory) -> Result<Vec<u32>> {
        let mut values = vec![0_u32; (memory.bytes / 4) as usize];
        // SAFETY: writes as many bytes as the vector has. The allocation has at least as many.
        self.check(&self.api().copy_to_host, |call| unsafe {
            call(values.as_mut_ptr().cast(), memory.pointer, values.len() * 4)
        })?;
        Ok(values)
    }

    /// Waits for all queued work.
    pub(crate) fn synchronize(&self) -> Result<()> {
        // SAFETY: takes nothing.
        self.check(&self.api().synchronize, |call| unsafe { call() })
    }

    /// Loads a kernel from its binary, ready for `shared` bytes of dynamic shared memory.
    pub(crate) fn load(&self, binary: &[u8], symbol: &str, shared: u32) -> Result<Function> {
        let mut module = ptr::null_mut();
        // SAFETY: the binary is an ELF file, which states its own size. The driver refuses a broken one.
        self.check(&self.api().module_load, |call| unsafe { call(&mut module, binary.as_ptr().cast()) })?;
        let mut function = Function { driver: self.driver.clone(), module, handle: ptr::null_mut() };
        let symbol = CString::new(symbol).unwrap_or_default();
        // SAFETY: the module was loaded above, and the name ends with a zero byte.
        self.check(&self.api().module_function, |call| unsafe {
            call(&mut function.handle, module, symbol.as_ptr())
        })?;
        if let Own::Cuda(cuda) = &self.driver.0.own {
            cuda.allow_shared(&self.driver, function.handle, shared)?;
        }
        Ok(function)
    }

    /// Queues a launch.
    ///
    /// The arguments must be those that the kernel was compiled for. A pack states the ABI that it was built for, and
    /// only packs of this program's `kernels::ABI` are launched.
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
        // SAFETY: every pointer is to a value that outlives the call. Kernels of this ABI take as many values, of the
        // same sizes.
        self.check(&self.api().launch, |call| unsafe {
            call(
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
        })
    }

    pub(crate) fn event(&self) -> Result<Event> {
        let mut handle = ptr::null_mut();
        // SAFETY: writes one handle.
        self.check(&self.api().event_create, |call| unsafe { call(&mut handle, 0) })?;
        Ok(Event { driver: self.driver.clone(), handle })
    }

    /// Queues an event. The GPU records the time on reaching it.
    pub(crate) fn record(&self, event: &Event) -> Result<()> {
        // SAFETY: the event exists for as long as its owner does.
        self.check(&self.api().event_record, |call| unsafe { call(event.handle, ptr::null_mut()) })
    }

    /// Whether the GPU has reached the event.
    pub(crate) fn has_passed(&self, event: &Event) -> Result<bool> {
        const NOT_READY: c_int = 600;
        let call = &self.api().event_query;
        // SAFETY: the event exists for as long as its owner does.
        match unsafe { (call.function)(event.handle) } {
            NOT_READY => Ok(false),
            code => self.driver.judge(call.name, code).map(|()| true),
        }
    }

    /// Milliseconds between two events that have passed.
    pub(crate) fn elapsed(&self, start: &Event, end: &Event) -> Result<f32> {
        let mut millis = 0.0;
        // SAFETY: writes one number.
        self.check(&self.api().event_elapsed, |call| unsafe { call(&mut millis, start.handle, end.handle) })?;
        Ok(millis)
    }

    fn api(&self) -> &Api {
        &self.driver.0.api
    }

    fn check<F: Copy>(&self, call: &Call<F>, run: impl FnOnce(F) -> c_int) -> Result<()> {
        self.driver.check(call, run)
    }
}

/// A GPU's memory in bytes: `free` can be allocated now, `total` is all of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryInfo {
    pub(crate) free: u64,
    pub(crate) total: u64,
}

/// An allocation on the GPU.
pub(crate) struct Memory {
    pub(super) driver: Driver,
    pub(super) pointer: Pointer,
    pub(super) bytes: u64,
}

impl Memory {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A part of the allocation.
    pub(crate) fn slice(&self, start: u64, bytes: u64) -> Slice<'_> {
        assert!(start + bytes <= self.bytes, "{start} + {bytes} of {}", self.bytes);
        Slice { memory: self, start, bytes }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this driver allocated it, and it is freed once. An error here would only repeat an
        // earlier one.
        let _ = unsafe { (self.driver.0.api.free.function)(self.pointer) };
    }
}

/// A part of an allocation.
#[derive(Clone, Copy)]
pub(crate) struct Slice<'a> {
    memory: &'a Memory,
    start: u64,
    pub(super) bytes: u64,
}

impl Slice<'_> {
    /// The part's address on the GPU.
    pub(crate) fn pointer(&self) -> u64 {
        self.memory.pointer + self.start
    }
}

/// A loaded kernel.
pub(crate) struct Function {
    pub(super) driver: Driver,
    pub(super) module: Handle,
    pub(super) handle: Handle,
}

impl Drop for Function {
    fn drop(&mut self) {
        // SAFETY: this driver loaded it, and it is unloaded once.
        let _ = unsafe { (self.driver.0.api.module_unload.function)(self.module) };
    }
}

/// A point in the queue at which the GPU records the time.
pub(crate) struct Event {
    pub(super) driver: Driver,
    pub(super) handle: Handle,
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: this driver created it, and it is destroyed once.
        let _ = unsafe { (self.driver.0.api.event_destroy.function)(self.handle) };
    }
}
