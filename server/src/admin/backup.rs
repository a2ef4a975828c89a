//! Makes a copy of everything that a server keeps, while the server works, and restores it.
//!
//! A backup is a folder. It holds the database in the form that the database's own tools write, the blobs, and
//! a manifest that names all of them with their digests. The manifest is written last, so a folder without a
//! manifest is no backup.

mod check;
mod database;
mod make;
mod manifest;
mod restore;

pub use check::{BackupFault, check};
pub use make::{Made, make};
pub use manifest::{Manifest, SavedDatabase};
pub use restore::{Restored, restore};
