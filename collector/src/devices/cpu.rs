//! Measuring on this node's CPU: a blocked matrix multiplication in a process of its own.
//!
//! `worker`, `timing` and `matmul` run in the measuring process, the other modules in its parent.

mod matmul;
mod meter;
mod patience;
mod policy;
mod procedure;
mod process;
mod protocol;
mod timing;
mod worker;

pub(crate) use meter::CpuMeter;
pub(crate) use worker::serve;
