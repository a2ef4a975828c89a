//! How fast a server takes uploads and answers: `load ingest COLLECTIONS [POSTGRES_URL]` or
//! `load pages TIMINGS SECONDS [POSTGRES_URL]`. How long the dashboard's tasks and changes of page are on a slow
//! computer: `load tasks PROBLEMS [POSTGRES_URL]`, or `load tasks URL` of a server that runs; the changes alone:
//! `load changes URL`.
//!
//! Starts a server on an empty database: that of the URL, else SQLite in a folder of its own. All that is uploaded is
//! shaped like a real collection and made of it: 209 problems, 1,534 configs. Each figure stands beside
//! its goal and the machine's load; what is slow is only said.

mod answers;
mod changes;
mod collections;
mod connection;
mod filling;
mod ingest;
mod machine;
mod pace;
mod pages;
mod site;
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
        ["changes", url] => tokio::runtime::Runtime::new()?.block_on(changes::look_at(url)),
        ["tasks", url] if url.starts_with("http") => {
            tokio::runtime::Runtime::new()?.block_on(tasks::look_at(url))
        }
        ["tasks", problems, ref database @ ..] => {
            let problems = problems.parse().context("PROBLEMS")?;
            tasks::run(database.first().copied(), problems)
        }
        _ => anyhow::bail!(
            "expected ingest COLLECTIONS, pages TIMINGS SECONDS or tasks PROBLEMS, and perhaps POSTGRES_URL; or tasks URL, changes URL"
        ),
    }
}
