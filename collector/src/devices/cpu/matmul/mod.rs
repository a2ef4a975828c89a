//! The CPU backend: a real blocked, multi-threaded matrix multiplication whose
//! loops are decided by the same config vocabulary that GPUs use.
//!
//! `block_m`×`block_n` output tiles are computed from panels `block_k` deep, in
//! the order that `group_m` gives them, by `num_warps` threads. Inputs are
//! widened to f32 while a panel is packed, and sums are kept in f32.

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
