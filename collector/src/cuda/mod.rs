//! NVIDIA GPUs, through the driver alone: kernels come from a pack, times from
//! events. Everything here runs in a child process of its own.

mod cublas;
mod driver;
mod nvml;
mod operands;
mod phases;
mod policy;
pub(crate) mod protocol;
mod queue;
mod session;
mod store;
mod worker;

pub(crate) use worker::{WorkerOptions, serve};
