//! The dashboard: leaderboards, models, predictions and contributions, all in the browser. Its predictions
//! run the same Rust code as those of the server and the command line.
#![forbid(unsafe_code)]
#![allow(unreachable_pub, reason = "`#[component]` writes public items")]

mod api;
mod app;
mod cache;
mod charts;
mod components;
mod files;
mod format;
mod pages;
mod query;
mod remote;
mod scheduler;

fn main() {
    console_error_panic_hook::set_once();
    query::remember_places();
    // The app starts in a task of its own: on a slow computer, starting the program already fills the
    // present task.
    leptos::prelude::set_timeout(|| leptos::mount::mount_to_body(app::App), std::time::Duration::ZERO);
}
