//! Boards: what was measured, ranked. `consensus` computes an entry from the solutions of a view, `entry_store` keeps
//! it, and the routes answer with leaderboards, problems, picks, tables and datasets.

pub(crate) mod board_routes;
pub(crate) mod board_store;
pub(crate) mod consensus;
pub(crate) mod entry_store;
pub(crate) mod export_cache;
pub(crate) mod export_routes;
pub(crate) mod hardware_store;
pub(crate) mod pick_routes;
pub(crate) mod problem_routes;
pub mod refresh;
pub mod size_map;
pub(crate) mod summary_store;
pub(crate) mod survey_store;
