//! Load tests of a server and of the dashboard:
//!
//! - `load ingest COLLECTIONS [POSTGRES_URL]` and `load pages TIMINGS SECONDS [POSTGRES_URL]`: how fast a server takes
//!   uploads and answers;
//! - `load against URL SECONDS` and `load shipped SECONDS [POSTGRES_URL]`: the same of a running server, whose data stay as
//!   they are, and of a new one with the shipped data;
//! - `load mixed MINUTES [POSTGRES_URL]`: how much memory a server takes while it answers and takes uploads;
//! - `load starve SECONDS [POSTGRES_URL]`: how long honest clients wait beside those that only take;
//! - `load tasks PROBLEMS [POSTGRES_URL]` and `load tasks URL`: how long the dashboard's tasks and changes of page are
//!   on a slow computer, with a new server or a running one; `load changes URL`: only the changes of page.
//!
//! A new server has an empty database: the one at the URL, else SQLite in a folder of its own. All uploads are made from
//! a real collection: 209 problems, 1,534 configs. Each figure is printed beside its goal and the machine's load. A slow
//! server is only reported; it is no failure.

mod answers;
mod changes;
mod collections;
mod connection;
mod drawn;
mod filling;
mod ingest;
mod machine;
mod pace;
mod pages;
mod site;
mod starve;
mod tasks;

use std::time::Duration;

use anyhow::Context;

use site::Site;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["ingest", collections, ref database @ ..] => {
            let collections = collections.parse().context("COLLECTIONS")?;
            ingest::run(&mut Site::new(database.first().copied())?, collections)
        }
        ["pages", timings, seconds, ref database @ ..] => {
            let timings = timings.parse().context("TIMINGS")?;
            let time = Duration::from_secs(seconds.parse().context("SECONDS")?);
            pages::run(&mut Site::new(database.first().copied())?, timings, time)
        }
        ["against", url, seconds] => {
            pages::against(url, Duration::from_secs(seconds.parse().context("SECONDS")?))
        }
        ["shipped", seconds, ref database @ ..] => {
            let time = Duration::from_secs(seconds.parse().context("SECONDS")?);
            let site = Site::shipped(database.first().copied(), &[])?;
            pages::against(site.url()?, time)
        }
        ["mixed", minutes, ref database @ ..] => {
            let minutes = minutes.parse().context("MINUTES")?;
            pages::mixed(&Site::shipped(database.first().copied(), &[])?, minutes)
        }
        ["starve", seconds, ref database @ ..] => {
            let time = Duration::from_secs(seconds.parse().context("SECONDS")?);
            starve::run(database.first().copied(), time)
        }
        ["changes", url] => tokio::runtime::Runtime::new()?.block_on(changes::look_at(url)),
        ["tasks", url] if url.starts_with("http") => {
            tokio::runtime::Runtime::new()?.block_on(tasks::look_at(url))
        }
        ["tasks", problems, ref database @ ..] => {
            let problems = problems.parse().context("PROBLEMS")?;
            tasks::run(database.first().copied(), problems)
        }
        _ => anyhow::bail!(
            "expected ingest COLLECTIONS, pages TIMINGS SECONDS, against URL SECONDS, shipped SECONDS, mixed MINUTES, starve SECONDS or tasks PROBLEMS, and perhaps POSTGRES_URL; or tasks URL, changes URL"
        ),
    }
}
