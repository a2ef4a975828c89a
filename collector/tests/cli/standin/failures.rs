//! Faults, one after the other. Each case must end as docs/guides/collecting.md says and lose nothing that was
//! measured. `--resume` on a sound node must complete it.

mod case;
mod collections;
mod configs;
mod host;
mod problems;
mod processes;
