//! Commands by which an operator changes the data, outside of the HTTP API.

mod accounts;
pub mod backup;
mod models;
mod moderation;
pub(crate) mod moderation_store;
mod seed;
mod snapshots;
mod sweep;
mod verify;

pub use accounts::{AccountCommand, print};
pub use models::ModelCommand;
pub use moderation::ModerationCommand;
pub use seed::{Seeded, seed};
pub use snapshots::SnapshotCommand;
pub use sweep::{Swept, sweep};
pub use verify::{Difference, Verified, verify, verify_entries};
