//! Measuring on this node's CPU: a real blocked matrix multiplication, in a
//! process of its own.

mod matmul;
mod meter;
mod patience;
mod policy;
mod process;
mod protocol;
mod session;
mod worker;

pub(crate) use meter::CpuMeter;
pub(crate) use worker::serve;
