//! What an operator does to the data, outside of the HTTP API.

mod seed;
mod verify;

pub use seed::{Seeded, seed};
pub use verify::{Difference, Verified, verify};
