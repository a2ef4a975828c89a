//! Measuring on this node's CPU: a real blocked matrix multiplication, in a
//! process of its own.

mod matmul;
mod meter;
mod patience;
mod policy;
mod protocol;
mod session;
mod supervisor;
mod worker;

pub(crate) use meter::CpuMeter;
pub(crate) use worker::serve;
