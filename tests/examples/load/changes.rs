//! How long the change from page to page takes after the next page's data has arrived.

use anyhow::Context;
use diode_tests::{Browser, Theme, Viewport};
use serde_json::json;

use crate::machine::load;
use crate::tasks::{AFTERWARDS, GOAL_MS, SLOWDOWN};

/// The number of rounds. Each round makes every change once.
const ROUNDS: usize = 3;

struct Change {
    to: &'static str,
    /// The link that is pressed. The page before has it.
    link: &'static str,
    path: &'static str,
    /// An element that the page has when it shows its data.
    shown: &'static str,
}

const CHANGES: [Change; 7] = [
    Change { to: "Models", link: ".nav a[href='/models']", path: "/models", shown: "main a.card-link" },
    Change { to: "Datasets", link: ".nav a[href='/datasets']", path: "/datasets", shown: "main a.card-link" },
    Change { to: "Compare", link: ".nav a[href='/compare']", path: "/compare", shown: "main form" },
    Change { to: "Contribute", link: ".nav a[href='/contribute']", path: "/contribute", shown: "main h2" },
    Change { to: "Overview", link: ".nav a[href='/']", path: "/", shown: HARDWARE },
    Change { to: "Hardware", link: HARDWARE, path: "/hardware/nvidia-h200", shown: ".chart path.marks" },
    Change {
        to: "Predict",
        link: ".nav a[href='/predict']",
        path: "/predict",
        shown: "[data-testid=candidates] [data-config]",
    },
];

const HARDWARE: &str = "main a.card-link[href='/hardware/nvidia-h200']";

/// Makes every change on a server's pages, and prints how long each took.
pub(crate) async fn look_at(url: &str) -> anyhow::Result<()> {
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    let mut times = vec![Vec::new(); CHANGES.len()];
    // The first round only has the browser compile the pages' code.
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
    /// Presses the link. Gives the milliseconds from the page's last data to the frame that shows them, or from the
    /// press if the page asks for nothing.
    async fn make(&self, browser: &Browser) -> anyhow::Result<f64> {
        let Self { link, path, shown, .. } = self;
        let [link, path, shown] = [link, path, shown].map(|text| json!(text));
        let press = format!(
            "window.changed = null;
             performance.clearResourceTimings();
             const before = document.querySelector('main');
             const began = performance.now();
             const look = () => {{
                 const main = document.querySelector('main');
                 const there = location.pathname === {path} && main !== before && document.querySelector({shown});
                 if (!there || main.querySelector('.skeleton')) return requestAnimationFrame(look);
                 const found = performance.now();
                 requestAnimationFrame(() => setTimeout(() => {{
                     const answers = performance.getEntriesByType('resource')
                         .map((answer) => answer.responseEnd)
                         .filter((end) => end >= began && end <= found);
                     window.changed = performance.now() - Math.max(began, ...answers);
                 }}));
             }};
             document.querySelector({link}).click();
             requestAnimationFrame(look);"
        );
        browser.script::<serde_json::Value>(&press).await?;
        browser.until("return window.changed !== null").await?;
        let took = browser.script("return window.changed").await?;
        // The page's other work must not count for the next change.
        tokio::time::sleep(AFTERWARDS).await;
        Ok(took)
    }
}
