//! What goes wrong, one case after the other. Each ends as docs/guides/collecting.md says, loses nothing that was
//! measured, and is completed by `--resume` on a node that is well.

mod case;
mod collections;
mod configs;
mod host;
mod problems;
mod processes;
