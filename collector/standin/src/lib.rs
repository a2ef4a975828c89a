//! Stand-ins for the shared libraries of a GPU: its driver, its management library and the vendor's
//! multiplications, with the functions that `diode` calls and nothing else.
//!
//! One shared library has all functions. A test puts links to it, named as the vendor's libraries, into a
//! folder that the system's loader searches first (`LD_LIBRARY_PATH`). All links lead to one file, so the loader
//! makes it one library with one state. A [`Script`] says which GPUs there are and what goes wrong.
//!
//! Memory is the host's, time is counted and not measured, and the arguments of each launch are compared
//! with what its kernel was compiled for. Results are computed on the host, where they are read.
#![allow(unsafe_code, reason = "it is called through a foreign function interface")]

mod amd_smi;
mod code_object;
mod cublas;
mod cuda;
mod driver;
mod elf;
mod hip;
mod kernel;
mod launch;
mod library;
mod light;
mod memory;
mod node;
mod number;
mod nvml;
mod out;
mod pending;
mod product;
mod script;

pub use script::{Effect, Gpu, Rule, Script};
