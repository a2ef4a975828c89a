//! The Diode server: takes uploads of matmul timings, ranks them, trains models
//! on them and serves the dashboard.
//!
//! [`router`] is the table of contents of the HTTP API, [`store::Store`] of the database, and
//! [`cli::Command`] of the command line. Uploads are judged in [`uploads`]. The configs of a problem are
//! ranked in `consensus`.
#![forbid(unsafe_code)]

pub mod accounts;
pub mod admin;
pub mod agents;
pub mod app;
pub mod backend;
pub mod blobs;
pub mod boards;
pub mod cli;
mod compare;
mod description;
mod http;
pub mod jobs;
mod kernels;
pub mod limits;
pub mod listen;
pub mod metrics;
mod models;
mod page_cache;
mod pages;
mod readiness;
pub mod router;
pub mod serve;
pub mod settings;
mod snapshots;
pub mod store;
pub mod tls;
mod turns;
mod ui;
pub mod uploads;
mod workloads;
