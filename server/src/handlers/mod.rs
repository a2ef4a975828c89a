//! One module per resource of the API; [`crate::router`] says which path leads where.

pub(crate) mod account;
pub(crate) mod agents;
pub(crate) mod datasets;
pub(crate) mod devices;
mod export;
pub(crate) mod hardware;
pub(crate) mod health;
pub(crate) mod invitations;
pub(crate) mod job_events;
pub(crate) mod jobs;
pub(crate) mod leaderboard;
pub(crate) mod leases;
pub(crate) mod models;
pub(crate) mod moderation;
pub(crate) mod nearest;
pub(crate) mod packs;
pub(crate) mod picks;
pub(crate) mod problems;
pub(crate) mod publications;
pub(crate) mod session;
pub(crate) mod tables;
pub(crate) mod tokens;
pub(crate) mod uploads;
