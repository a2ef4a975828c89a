//! Explanations of figures and terms: by pointer, touch and keyboard, and for screen readers. axe-core finds
//! no fault while an explanation is open. Set DIODE_SCREENSHOTS to an absolute path to keep pictures.

use anyhow::ensure;
use diode_tests::{Browser, LOOKS, seeded_server};
use thirtyfour::Key;
use thirtyfour::prelude::*;

/// Pages of both pieces of the dashboard, and an explained text that each page has.
const PAGES: [(&str, &str); 3] = [
    ("/", ".stat .why"),
    ("/hardware/nvidia-h200", ".stat .why"),
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
            // The keyboard opens and closes the explanation, and the focus stays on the text.
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
            // A tap or a click opens it, too.
            first.click().await?;
            browser.until(&format!("return {OPEN}.length === 1")).await?;
            // A click on another text replaces the explanation by that text's own.
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
