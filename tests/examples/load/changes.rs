//! How long the change from page to page takes after the next page's data has arrived.

use anyhow::Context;
use diode_tests::{Browser, Theme, Viewport};
use serde_json::json;

use crate::drawn::once_drawn;
use crate::machine::load;
use crate::tasks::{AFTERWARDS, GOAL_MS, SLOWDOWN};

/// The number of rounds. Each round makes every change once.
const ROUNDS: usize = 3;

struct Change {
    to: &'static str,
    /// The page's heading begins with this.
    heading: &'static str,
    /// The link that is pressed. The page before has it.
    link: &'static str,
    /// An element that the page has once it shows its data.
    shown: &'static str,
}

const CHANGES: [Change; 7] = [
    named("Models", ".nav a[href='/models']", "main a.card-link"),
    named("Datasets", ".nav a[href='/datasets']", "main a.card-link"),
    named("Compare", ".nav a[href='/compare']", "main input"),
    named("Contribute", ".nav a[href='/contribute']", "main h2"),
    Change { to: "Overview", heading: "The best", link: ".nav a[href='/']", shown: HARDWARE },
    Change { to: "Hardware", heading: "NVIDIA H200", link: HARDWARE, shown: ".chart path.marks" },
    named("Predict", ".nav a[href='/predict']", "[data-testid=candidates] [data-config]"),
];

/// A change to a page whose heading is its name.
const fn named(name: &'static str, link: &'static str, shown: &'static str) -> Change {
    Change { to: name, heading: name, link, shown }
}

const HARDWARE: &str = "main a.card-link[href='/hardware/nvidia-h200']";

/// Makes every change on a server's pages, and prints how long each took.
pub(crate) async fn look_at(url: &str) -> anyhow::Result<()> {
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    let mut times = vec![Vec::new(); CHANGES.len()];
    // The first round is not timed: in it, the browser compiles the pages' code.
    for round in 0..=ROUNDS {
        browser.open(&format!("{url}/"), HARDWARE).await?;
        if round == 1 {
            browser.devtools("Emulation.setCPUThrottlingRate", json!({ "rate": SLOWDOWN })).await?;
        }
        for (times, change) in times.iter_mut().zip(&CHANGES) {
            let took = change.make(&browser).await.with_context(|| format!("to {}", change.to))?;
            times.extend((round > 0).then_some(took));
        }
    }
    for (times, change) in times.iter_mut().zip(&CHANGES) {
        times.sort_by(f64::total_cmp);
        println!(
            "to {}: {:.0} ms after its data in the quietest of {ROUNDS} changes, {:.0} in the middle one, {:.0} at most, at a \
             {SLOWDOWN}th of the speed (goal: {GOAL_MS}); load average {}",
            change.to,
            times[0],
            times[ROUNDS / 2],
            times[ROUNDS - 1],
            load()
        );
    }
    Ok(())
}

impl Change {
    /// Presses the link. Returns the milliseconds from the arrival of the page's last data, or from the press if
    /// the page asks for none, to the frame that shows the page.
    async fn make(&self, browser: &Browser) -> anyhow::Result<f64> {
        let Self { heading, link, shown, .. } = self;
        let [heading, link, shown] = [heading, link, shown].map(|text| json!(text));
        let is_there = format!(
            "(document.querySelector('main h1')?.textContent ?? '').startsWith({heading})
             && document.querySelector({shown})"
        );
        let drawn = once_drawn(
            &is_there,
            "const answers = performance.getEntriesByType('resource')
                 .map((answer) => answer.responseEnd)
                 .filter((end) => end >= began && end <= found);
             window.changed = performance.now() - Math.max(began, ...answers);",
        );
        let press = format!(
            "window.changed = null;
             performance.clearResourceTimings();
             const began = performance.now();
             document.querySelector({link}).click();
             {drawn}"
        );
        browser.script::<serde_json::Value>(&press).await?;
        browser.until("return window.changed !== null").await?;
        let took = browser.script("return window.changed").await?;
        // The page must finish its other work, or that work would count for the next change.
        tokio::time::sleep(AFTERWARDS).await;
        Ok(took)
    }
}
