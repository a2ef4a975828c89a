//! Measuring on GPUs, with nothing but the driver. Kernels come from a pack, and times from events. The
//! modules `meter` and `process` are the parent's side; most other modules run in the measuring process.
//!
//! NVIDIA's and AMD's GPUs need different code mainly in the [`driver`], the [`library`] and the
//! [`management`] library.

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
