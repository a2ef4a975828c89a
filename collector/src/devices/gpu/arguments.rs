//! The arguments of a launch.

use std::ffi::c_void;
use std::ptr;

/// The arguments of a kernel. Each takes eight bytes here, however many bytes the kernel reads.
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

    /// Adds the two pointers that Triton appends to its arguments. The kernels do not use them.
    pub(crate) fn finish(mut self) -> Self {
        self.0.extend([0, 0]);
        self
    }

    /// A pointer to each argument. A launch takes these.
    pub(super) fn pointers(&mut self) -> Vec<*mut c_void> {
        // The low bytes of each word are the value on a little-endian machine, whatever the value's
        // size.
        self.0.iter_mut().map(|word| ptr::from_mut(word).cast()).collect()
    }
}

#[cfg(target_endian = "big")]
compile_error!("kernel arguments are passed as the low bytes of 64-bit words");
