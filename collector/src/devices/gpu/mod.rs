//! Measuring on GPUs, through the driver alone: kernels come from a pack, times from
//! events. The meter and its process are the parent's side; all else runs in the measuring process.
//!
//! NVIDIA's and AMD's GPUs go the same way up to the [`driver`], the [`library`] and the [`management`] library.

mod arguments;
pub(crate) mod choice;
mod driver;
mod foreign;
mod library;
mod looks;
mod management;
mod measured_problem;
mod meter;
mod operands;
mod policy;
mod prepared;
mod procedure;
mod process;
mod protocol;
mod rounds;
mod session;
mod session_error;
mod store;
mod timing_queue;
pub(crate) mod vendor;
mod worker;

pub(crate) use driver::{Driver, NoDriver};
pub(crate) use meter::{GpuMeter, GpuOptions};
pub(crate) use operands::most_operand_bytes;
pub(crate) use worker::{WorkerOptions, serve};
