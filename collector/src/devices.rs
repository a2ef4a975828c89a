//! The devices that time a problem's configs: the CPU of this node, or its GPUs.
//!
//! Each kind of device has a meter, which is the parent's side, and a measuring process with a
//! worker. The two exchange the messages of a protocol. A kernel that hangs or crashes ends the
//! measuring process. So it costs one config and never the collection.

pub(crate) mod cpu;
pub(crate) mod gpu;
pub(crate) mod measured;
mod measuring_process;
pub(crate) mod meter;
mod samples;
pub(crate) mod simulated;
