//! Whole collections on GPUs that are stand-ins, sound ones and others.

mod compiled;
mod failures;
mod node;
mod sound;

pub(crate) use compiled::launch_compiled;
