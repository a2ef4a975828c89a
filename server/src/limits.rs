//! How often an account or, without one, an address may do what is expensive for the server.
//!
//! `rated` counts every request that changes something. Exports are counted in their handler, once it is
//! clear that the answer is not 304. Tries are counted in the database, so that all servers on one database
//! count together.

mod admit;
mod client;
mod describe;
mod layer;
mod rate;
mod refused;
mod turns;

use std::time::Duration;

pub(crate) use admit::admit;
pub(crate) use client::Client;
pub(crate) use describe::describe;
pub(crate) use layer::rated;
pub(crate) use rate::{Left, Rate};
pub(crate) use refused::Refused;
pub(crate) use turns::{Turn, Turns};

const MINUTE: Duration = Duration::from_secs(60);

/// The most requests per minute; `None` for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Uploads and results of agents.
    pub uploads: Option<u64>,
    /// All other requests that change something.
    pub changes: Option<u64>,
    /// Comparisons, and the datasets, tables and lists of configs that the client lacks.
    pub exports: Option<u64>,
}

impl Limits {
    /// For a server that others can reach. 1,200 uploads per minute let twenty agents of one account send a
    /// result each second.
    pub const PUBLIC: Self = Self { uploads: Some(1200), changes: Some(1200), exports: Some(120) };

    fn uploads(&self) -> Option<Rate> {
        rate("uploads", self.uploads)
    }

    fn changes(&self) -> Option<Rate> {
        rate("changes", self.changes)
    }

    pub(crate) fn exports(&self) -> Option<Rate> {
        rate("exports", self.exports)
    }
}

fn rate(name: &'static str, quota: Option<u64>) -> Option<Rate> {
    quota.map(|quota| Rate { name, quota, window: MINUTE })
}
