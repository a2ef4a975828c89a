//! What lives on the GPU, and is given back when it is dropped.

use super::Driver;
use super::api::{Handle, Pointer};

/// A GPU's memory in bytes: what could be allocated now, and all of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryInfo {
    pub(crate) free: u64,
    pub(crate) total: u64,
}

/// Memory of the GPU.
pub(crate) struct Memory {
    pub(super) driver: Driver,
    pub(super) pointer: Pointer,
    pub(super) bytes: u64,
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
        let _ = unsafe { (self.driver.0.api.free.function)(self.pointer) };
    }
}

/// A part of some memory.
#[derive(Clone, Copy)]
pub(crate) struct Slice<'a> {
    memory: &'a Memory,
    start: u64,
    pub(super) bytes: u64,
}

impl Slice<'_> {
    /// The address on the GPU.
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
        // SAFETY: loaded by this driver and unloaded once.
        let _ = unsafe { (self.driver.0.api.module_unload.function)(self.module) };
    }
}

/// A point in the queue.
pub(crate) struct Event {
    pub(super) driver: Driver,
    pub(super) handle: Handle,
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created by this driver and destroyed once.
        let _ = unsafe { (self.driver.0.api.event_destroy.function)(self.handle) };
    }
}
