//! How long going from page to page takes once the next page's data has come.

use diode_tests::{Browser, Theme, Viewport};
use serde_json::json;

use crate::machine::load;
use crate::tasks::SLOWDOWN;

const GOAL_MS: f64 = 100.0;

/// Each way is gone so often.
const GONE: usize = 3;

/// The link that is pressed, and what the next page then shows. In this order each page has the next link.
const WAYS: [(&str, &str, &str); 7] = [
    ("Models", ".nav a[href='/models']", "main a.card-link[href^='/models/']"),
    ("Datasets", ".nav a[href='/datasets']", "main a[href^='/datasets/']"),
    ("Compare", ".nav a[href='/compare']", "main form"),
    ("Contribute", ".nav a[href='/contribute']", "main label.drop"),
    ("Overview", ".nav a[href='/']", "main a.card-link[href^='/hardware/']"),
    ("Hardware", "main a.card-link[href='/hardware/nvidia-h200']", "main .page-head h1"),
    ("Predict", ".nav a[href='/predict']", "[data-testid=candidates] [data-config]"),
];

/// Goes every way, and prints how long after the first answer, or after the press where nothing is asked for, the next
/// page is drawn.
pub(crate) async fn look_at(url: &str) -> anyhow::Result<()> {
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    let mut took: Vec<Vec<f64>> = vec![Vec::new(); WAYS.len()];
    for _ in 0..GONE {
        browser.open(&format!("{url}/"), "main a.card-link[href^='/hardware/']").await?;
        // Its code is compiled at the first visit, which is not the question here.
        if took[0].is_empty() {
            for (_, link, ready) in WAYS {
                go(&browser, link, ready).await?;
            }
            browser.devtools("Emulation.setCPUThrottlingRate", json!({ "rate": SLOWDOWN })).await?;
            browser.open(&format!("{url}/"), "main a.card-link[href^='/hardware/']").await?;
        }
        for (took, (_, link, ready)) in took.iter_mut().zip(WAYS) {
            took.push(go(&browser, link, ready).await?);
        }
    }
    for (took, (name, ..)) in took.iter_mut().zip(WAYS) {
        took.sort_by(f64::total_cmp);
        println!(
            "to {name}: drawn {:.0} ms after its data in the quietest of {GONE} changes, {:.0} in the middle one, {:.0} at \
             most, at a {SLOWDOWN}th of the speed (goal: {GOAL_MS}); load average {}",
            took[0],
            took[GONE / 2],
            took[GONE - 1],
            load()
        );
    }
    Ok(())
}

/// Presses a link, and gives the milliseconds from the next page's data to its drawing.
async fn go(browser: &Browser, link: &str, ready: &str) -> anyhow::Result<f64> {
    let (link, ready) = (json!(link), json!(ready));
    let press = format!(
        "window.changed = null;
         const before = document.querySelector('main');
         const began = performance.now();
         const look = () => {{
             const main = document.querySelector('main');
             if (window.changed !== null || main === before || !document.querySelector({ready})) return;
             seen.disconnect();
             requestAnimationFrame(() => setTimeout(() => {{
                 const drawn = performance.now();
                 const answers = performance.getEntriesByType('resource')
                     .filter((one) => one.startTime >= began && one.responseEnd <= drawn)
                     .map((one) => one.responseEnd);
                 window.changed = drawn - (answers.length ? Math.min(...answers) : began);
             }}));
         }};
         const seen = new MutationObserver(look);
         seen.observe(document.body, {{ childList: true, subtree: true, characterData: true }});
         document.querySelector({link}).click();"
    );
    browser.script::<()>(&press).await?;
    browser.until("return window.changed !== null").await?;
    // What else the page does is over before the next way.
    tokio::time::sleep(crate::tasks::AFTERWARDS).await;
    browser.script("return window.changed").await
}
