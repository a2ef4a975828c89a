//! The measuring child process and its supervision.
//!
//! Kernels run in a process of their own, so that one that hangs or crashes
//! ends the child and costs one config, never the collection.

mod child;
mod protocol;
mod serve;
mod supervisor;

pub(crate) use child::{Child, Lost};
pub(crate) use protocol::{Reply, Request};
pub(crate) use serve::serve;
pub(crate) use supervisor::Supervisor;
