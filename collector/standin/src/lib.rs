//! Stand-ins for the shared libraries of a GPU: its driver, its management library and the vendor's
//! multiplications. They have the functions that `diode` calls, and no others.
//!
//! A single shared library has all functions. A test puts links to it into a folder that the system's loader
//! searches first (`LD_LIBRARY_PATH`), under the names of the vendor's libraries. All links lead to one file, so
//! the loader loads one library with one state. A [`Script`] says which GPUs there are and what goes wrong.
//!
//! Memory is the host's memory. Time is calculated, not measured. The arguments of each launch are compared with
//! what its kernel was compiled for. Results are computed on the host, when they are read.
#![allow(unsafe_code, reason = "it is called through a foreign function interface")]

mod amd_smi;
mod code_object;
mod cublas;
mod cuda;
mod driver;
mod hip;
mod kernel;
mod launch;
mod library;
mod light;
mod memory;
mod node;
mod number;
mod nvml;
mod product;
mod script;

pub use script::{Effect, Gpu, Rule, Script};
