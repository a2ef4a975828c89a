//! The longest tasks of each page on a slow computer. A page does not answer during a task, so a task of 100 ms is
//! felt.

use std::time::Duration;

use anyhow::{Context, ensure};
use diode_formats::{Format, encode};
use diode_tests::{Browser, Theme, Viewport};
use serde_json::json;

use crate::changes;
use crate::collections::Collections;
use crate::drawn::once_drawn;
use crate::filling::{SENDERS, send};
use crate::machine::load;
use crate::site::Site;

/// The browser is slowed down by this factor.
pub(crate) const SLOWDOWN: u32 = 4;

/// How often each page is opened. One visit is not enough: a task that the machine interrupts lasts longer than its
/// work.
const OPENED: usize = 3;

/// The time for work that follows once a page has all its data, such as predictions.
pub(crate) const AFTERWARDS: Duration = Duration::from_secs(3);

pub(crate) const GOAL_MS: f64 = 100.0;

/// Records the length of all tasks of 50 ms or more, how far the page's layout shifts, and when the page has shown an
/// element. Runs before the page's first script.
fn record(ready: &str) -> String {
    let drawn =
        once_drawn(&format!("document.querySelector({})", json!(ready)), "window.shown = performance.now();");
    format!(
        "window.long_tasks = []; window.shifted = 0; window.shown = null;
        new PerformanceObserver((list) => window.long_tasks.push(...list.getEntries().map((task) => task.duration)))
            .observe({{ type: 'longtask', buffered: true }});
        new PerformanceObserver((list) => list.getEntries().forEach((shift) => window.shifted += shift.value))
            .observe({{ type: 'layout-shift', buffered: true }});
        {drawn}"
    )
}

/// Returns what was recorded, and when the browser first painted something.
const TELL: &str = "return [
    Math.max(0, ...window.long_tasks),
    performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0,
    window.shown,
    window.shifted]";

struct Page {
    name: &'static str,
    path: String,
    /// An element that the page has once it shows its data.
    ready: &'static str,
}

/// Opens the largest pages of a site that has the shipped data and `problems` more problems of an H200.
pub(crate) fn run(database: Option<&str>, problems: usize) -> anyhow::Result<()> {
    let site = Site::shipped(database, &[])?;
    fill(&site, problems)?;
    tokio::runtime::Runtime::new()?.block_on(look_at(site.url()?))
}

fn fill(site: &Site, problems: usize) -> anyhow::Result<()> {
    let mut making = Collections::new()?;
    let mut left = problems;
    let files = std::iter::from_fn(|| {
        let some = left.min(making.problems());
        left -= some;
        (some > 0).then(|| Ok(encode(Format::Columnar, &[making.others(some)?])?))
    });
    send(site, SENDERS, files)?;
    site.settle()?;
    Ok(())
}

/// Opens each page of a server several times, and prints its longest task.
pub(crate) async fn look_at(url: &str) -> anyhow::Result<()> {
    for page in pages(url)? {
        let before = load();
        let mut visits = Vec::new();
        for _ in 0..OPENED {
            visits.push(first_visit(&format!("{url}{}", page.path), page.ready).await?);
        }
        let of = |figure: fn(&Visit) -> f64| {
            let mut figures: Vec<f64> = visits.iter().map(figure).collect();
            figures.sort_by(f64::total_cmp);
            figures
        };
        let (longest, paint, content) =
            (of(|visit| visit.longest_ms), of(|visit| visit.paint_ms), of(|visit| visit.content_ms));
        let shifted = of(|visit| visit.shifted);
        println!(
            "{}: longest task {:.0} ms in the quietest of {OPENED} first visits, {:.0} in the middle one, {:.0} at most, at a \
             {SLOWDOWN}th of the speed (goal: {GOAL_MS}); first paint after {:.0} ms, content after {:.0} in the quietest \
             (goals: 500, 1000); shifts by {:.3} at most (goal: 0.02); load average {before} before, {} after",
            page.name,
            longest[0],
            longest[OPENED / 2],
            longest[OPENED - 1],
            paint[0],
            content[0],
            shifted[OPENED - 1],
            load()
        );
    }
    changes::look_at(url).await
}

struct Visit {
    longest_ms: f64,
    paint_ms: f64,
    /// When the browser had drawn the page with its data.
    content_ms: f64,
    shifted: f64,
}

/// Each visit needs a new browser: one that has shown the dashboard has its code compiled already.
async fn first_visit(page: &str, ready: &str) -> anyhow::Result<Visit> {
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    browser.before_scripts(&record(ready)).await?;
    browser.devtools("Emulation.setCPUThrottlingRate", json!({ "rate": SLOWDOWN })).await?;
    // Nothing looks at the page while it loads: each look of the driver takes time from it.
    browser.devtools("Page.navigate", json!({ "url": page })).await?;
    tokio::time::sleep(AFTERWARDS).await;
    browser.until("return window.shown !== null").await.with_context(|| format!("{ready} on {page}"))?;
    let complaints = browser.complaints().await?;
    ensure!(complaints.is_empty(), "{page}: {complaints:?}");
    let [longest_ms, paint_ms, content_ms, shifted] = browser.script(TELL).await?;
    Ok(Visit { longest_ms, paint_ms, content_ms, shifted })
}

fn pages(url: &str) -> anyhow::Result<Vec<Page>> {
    let board = "/api/v1/hardware/nvidia-h200/leaderboard?sort=flops&limit=1&op=mm";
    let mut reply = ureq::get(format!("{url}{board}")).call()?;
    let board: serde_json::Value = reply.body_mut().read_json()?;
    let problem = board["items"][0]["problem_id"].as_str().context("no problem of an H200")?;
    Ok(vec![
        Page { name: "Home", path: "/".to_owned(), ready: "a.card-link[href^='/hardware/']" },
        Page { name: "Hardware", path: "/hardware/nvidia-h200".to_owned(), ready: ".chart path.marks" },
        Page {
            name: "Problem",
            path: format!("/problems/{problem}?hardware=nvidia-h200"),
            ready: ".chart path.dots",
        },
        Page {
            name: "Predict",
            path: "/predict?hardware=nvidia-h200&op=mm&m=4096&n=4096&k=4096&dtype=bfloat16".to_owned(),
            ready: "[data-testid=candidates] [data-config]",
        },
    ])
}
