//! What the whole-system tests share: the built programs, and a browser.
#![forbid(unsafe_code)]

mod administrator;
mod axe;
mod browser;
mod programs;
mod seeded;

pub use administrator::administrator_token;
pub use browser::{Browser, Theme, Viewport};
pub use programs::{Server, diode, diode_command, diode_json, server_command};
pub use seeded::seeded;
