//! Whole collections on GPUs that are stand-ins, sound ones and others.

mod failures;
mod node;
mod sound;
