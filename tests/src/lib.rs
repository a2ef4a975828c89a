//! Shared parts of the whole-system tests: the built programs, and a browser.
#![forbid(unsafe_code)]

mod accounts;
mod administrator;
mod agents;
mod axe;
mod browser;
mod lists;
mod programs;
mod reported;
mod seeded;
mod trained;

pub use administrator::{administrator_token, snapshot_of_h100, token};
pub use agents::{Agent, until};
pub use browser::{Browser, CATCH_FILES, LOOKS, Theme, Viewport};
pub use programs::{
    Server, collect_on_cpu, config_label, diode, diode_command, diode_json, diode_list, server_command,
};
pub use reported::reported;
pub use seeded::{seed, seeded, seeded_server};
pub use trained::trained_on_server;
