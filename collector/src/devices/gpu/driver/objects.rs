//! Objects on the GPU. Each is freed when it is dropped.

use super::Driver;
use super::api::{Handle, Pointer};

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

/// A point in the queue whose time is taken.
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
