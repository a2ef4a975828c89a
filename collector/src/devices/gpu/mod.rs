//! Measuring on GPUs, through the driver alone: kernels come from a pack, times from
//! events. The meter is the parent's side; all else runs in a child process of its own.
//!
//! What is one vendor's alone lies in a module of its own, such as [`cuda`].

pub(crate) mod choice;
mod cuda;
mod meter;
mod operands;
mod phases;
mod policy;
mod protocol;
mod queue;
mod session;
mod store;
mod worker;

pub(crate) use meter::{GpuMeter, GpuOptions};
pub(crate) use worker::{WorkerOptions, serve};
