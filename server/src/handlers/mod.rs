//! One module per resource of the API; [`crate::router`] says which path leads where.

pub(crate) mod datasets;
mod export;
pub(crate) mod hardware;
pub(crate) mod health;
pub(crate) mod job_events;
pub(crate) mod jobs;
pub(crate) mod leaderboard;
pub(crate) mod models;
pub(crate) mod problems;
pub(crate) mod tables;
pub(crate) mod uploads;
