//! What times the configs of a problem: the CPU of this node, or one of its GPUs.
//!
//! Each kind of device has a meter, which is the parent's side, and a measuring process
//! with a worker; they exchange the messages of a protocol. A kernel that hangs or crashes
//! ends that process and costs one config, never the collection.

pub(crate) mod cpu;
pub(crate) mod gpu;
pub(crate) mod measured;
mod measuring_process;
pub(crate) mod meter;
mod samples;
pub(crate) mod simulated;
