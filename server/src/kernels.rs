//! Kernel packs, which agents and people pull. They are executable code, so only an administrator adds them.

pub(crate) mod pack_routes;
pub(crate) mod pack_store;
