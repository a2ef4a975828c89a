//! Explanations of figures and terms: by pointer, touch and keyboard, for screen readers, and without a finding of
//! axe-core while one is open. Set DIODE_SCREENSHOTS to an absolute path to keep pictures.

use anyhow::ensure;
use diode_tests::{Browser, LOOKS, seeded_server};
use thirtyfour::Key;
use thirtyfour::prelude::*;

/// A page of each piece of the dashboard, and what must be there.
const PAGES: [(&str, &str); 4] = [
    ("/", ".stat .why"),
    ("/predict?hardware=nvidia-h200", "[data-testid=candidates] .why"),
    ("/hardware/nvidia-h200", "th .why"),
    ("/hardware/nvidia-h200?board=sizes", "[data-testid=size-map] th .why"),
];

const OPEN: &str =
    "[...document.querySelectorAll('.explanation')].filter((one) => one.matches(':popover-open'))";

#[tokio::test(flavor = "multi_thread")]
async fn explanations_are_there_for_everybody() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        for (path, why) in PAGES {
            browser.open(&format!("{}{path}", server.url()), why).await?;
            let first = browser.driver.find(By::Css(why)).await?;
            // A screen reader reads the title with the text.
            let title = first.attr("title").await?.unwrap_or_default();
            ensure!(!title.is_empty(), "{look} {path}");
            // The keyboard opens and closes it, and the focus stays.
            browser.driver.execute("arguments[0].focus()", vec![first.to_json()?]).await?;
            first.send_keys(Key::Enter + "").await?;
            browser.until(&format!("return {OPEN}.length === 1")).await?;
            let shown: String = browser.script(&format!("return {OPEN}[0].textContent")).await?;
            ensure!(shown == title, "{look} {path}: {shown}");
            let in_sight = format!(
                "const box = {OPEN}[0].getBoundingClientRect();
                 return box.width > 40 && box.left >= 0 && box.top >= 0
                     && box.right <= innerWidth + 1 && box.bottom <= innerHeight + 1"
            );
            ensure!(browser.script::<bool>(&in_sight).await?, "{look} {path}: out of sight");
            browser.sound(&format!("{look} {path}")).await?;
            browser.picture(&format!("explained-{}-{look}", path.replace(['/', '?', '='], "-"))).await?;
            first.send_keys(Key::Escape + "").await?;
            browser.until(&format!("return {OPEN}.length === 0")).await?;
            let has_focus = "return document.activeElement === arguments[0]";
            ensure!(browser.driver.execute(has_focus, vec![first.to_json()?]).await?.convert::<bool>()?);
            // A tap or a click does the same.
            first.click().await?;
            browser.until(&format!("return {OPEN}.length === 1")).await?;
            // So does another text, whose explanation takes the place of the first.
            let other = browser.driver.find_all(By::Css(why)).await?.into_iter().nth(1);
            if let Some(other) = other {
                let title = other.attr("title").await?.unwrap_or_default();
                browser.driver.execute("arguments[0].click()", vec![other.to_json()?]).await?;
                browser.until(&format!("return {OPEN}[0]?.textContent === {title:?}")).await?;
            }
        }
        // No figure or term is explained to the pointer alone.
        let alone =
            "return [...document.querySelectorAll('th[title], td[title], dt[title], .stat[title]')].length";
        ensure!(browser.script::<u32>(alone).await? == 0, "{look}");
    }
    Ok(())
}
