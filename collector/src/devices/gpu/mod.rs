//! Measuring on GPUs, through the driver alone: kernels come from a pack, times from
//! events. The meter and its process are the parent's side; all else runs in the measuring process.
//!
//! What is one vendor's alone lies in a module of its own, such as [`cuda`].

mod arguments;
pub(crate) mod choice;
mod cuda;
mod looks;
mod measure;
mod measurement;
mod meter;
mod operands;
mod policy;
mod prepared;
mod process;
mod protocol;
mod rounds;
mod session;
mod session_error;
mod store;
mod timing_queue;
mod worker;

pub(crate) use meter::{GpuMeter, GpuOptions};
pub(crate) use worker::{WorkerOptions, serve};
