//! Tests of the server from outside: every method of the store on both databases, every route through the
//! real router, and the built program killed without warning.
//!
//! `cfg(test)` is always true here. It tells clippy that helpers may unwrap, too.
#![forbid(unsafe_code)]

#[cfg(test)]
mod account_story;
#[cfg(test)]
mod accounts;
#[cfg(test)]
mod admin;
#[cfg(test)]
mod admin_pages;
#[cfg(test)]
mod agent_results;
#[cfg(test)]
mod agent_story;
#[cfg(test)]
mod agents;
#[cfg(test)]
mod asked_story;
#[cfg(test)]
mod attacks;
#[cfg(test)]
mod away;
#[cfg(test)]
mod backup;
#[cfg(test)]
mod contributions;
#[cfg(test)]
mod dataset_snapshots;
#[cfg(test)]
mod datasets;
#[cfg(test)]
mod errors;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod hardware;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod jobs;
#[cfg(test)]
mod kill;
#[cfg(test)]
mod large_uploads;
#[cfg(test)]
mod leaderboard;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod listen;
#[cfg(test)]
mod measuring;
#[cfg(test)]
mod merging;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod models;
#[cfg(test)]
mod moderation;
#[cfg(test)]
mod nearest;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod openid;
#[cfg(test)]
mod packs;
#[cfg(test)]
mod picks;
#[cfg(test)]
mod poison;
#[cfg(test)]
mod postgres;
#[cfg(test)]
mod problems;
#[cfg(test)]
mod process;
#[cfg(test)]
mod publication_story;
#[cfg(test)]
mod publications;
#[cfg(test)]
mod removal;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod side_by_side;
#[cfg(test)]
mod sign_in;
#[cfg(test)]
mod snapshot_limits;
#[cfg(test)]
mod sources;
#[cfg(test)]
mod storage;
#[cfg(test)]
mod storage_trouble;
#[cfg(test)]
mod story;
#[cfg(test)]
mod survey;
#[cfg(test)]
mod synced;
#[cfg(test)]
mod tables;
#[cfg(test)]
mod terms;
#[cfg(test)]
mod test_app;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod trainings;
#[cfg(test)]
mod trust;
#[cfg(test)]
mod ui;
#[cfg(test)]
mod unseen_models;
#[cfg(test)]
mod uploads;
#[cfg(test)]
mod visitor;
#[cfg(test)]
mod workloads;
