//! The CPU backend: a blocked, multi-threaded matrix multiplication. The fields of a config decide
//! the loops, as on a GPU.
//!
//! `num_warps` threads compute output tiles of `block_m`×`block_n` from panels that are `block_k`
//! deep, in the order that `group_m` gives. Inputs are widened to f32 while a panel is packed, and
//! sums are kept in f32.

mod check;
mod elements;
mod inputs;
mod kernel;
mod launch;
mod operand;
mod output;

pub(crate) use check::verify;
pub(crate) use inputs::{Inputs, bytes_needed, supports};
pub(crate) use launch::{Workspace, launch};
pub(crate) use output::Output;

#[cfg(test)]
mod tests;
