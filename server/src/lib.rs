//! The Diode server: takes uploads of matmul timings, ranks them, trains models
//! on them and serves the dashboard.
//!
//! [`router`] is the table of contents of the HTTP API, [`store::Store`] of the database, and
//! [`cli::Command`] of the command line. Uploads are judged in [`ingest`]. The configs of a problem are
//! ranked in `consensus`.
#![forbid(unsafe_code)]

pub mod accounts;
pub mod admin;
pub mod agents;
pub mod app;
pub mod backend;
pub mod blobs;
mod boards;
pub mod cli;
mod compare;
mod consensus;
mod contributions;
mod cover;
mod description;
mod exports;
mod handlers;
mod http;
pub mod ingest;
mod jobs;
mod kernels;
pub mod limits;
pub mod listen;
pub mod metrics;
mod models;
mod packs;
mod page_cache;
mod pages;
mod path_identity;
mod ratios;
mod readiness;
pub mod refresh;
pub mod router;
pub mod serve;
pub mod settings;
pub mod size_map;
mod snapshots;
pub mod solutions;
pub mod store;
pub mod storing;
pub mod tls;
pub mod trainings;
mod ui;
mod uploads;
pub mod worker;
