//! Whole collections on stand-in GPUs, both sound and faulty.

mod compiled;
mod failures;
mod node;
mod sound;

pub(crate) use compiled::launch_compiled;
