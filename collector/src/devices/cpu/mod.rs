//! Measuring on this node's CPU: a real blocked matrix multiplication, in a
//! process of its own.
//!
//! `worker` and `matmul` run in the measuring process, all else in the parent.

mod matmul;
mod measure;
mod meter;
mod patience;
mod policy;
mod process;
mod protocol;
mod worker;

pub(crate) use meter::CpuMeter;
pub(crate) use worker::serve;
