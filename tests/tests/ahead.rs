//! What a page needs is asked for early, and made in the order in which it is read.

use anyhow::Context;
use diode_tests::{Browser, Server, Theme, Viewport, seeded};
use serde_json::json;

/// Notes the order in which the chart and the board of a hardware come.
const NOTE_ORDER: &str = "window.order = [];
    const note = (selector) => {
        if (!window.order.includes(selector) && document.querySelector(selector)) window.order.push(selector);
    };
    new MutationObserver(() => ['.chart path.marks', '#board-title'].forEach(note))
        .observe(document, { subtree: true, childList: true });";

#[tokio::test(flavor = "multi_thread")]
async fn a_page_asks_early_and_once_for_what_it_needs() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let board = server.get("/api/v1/hardware/nvidia-h200/leaderboard?limit=1")?;
    let problem = board["items"][0]["problem_id"].as_str().context("no problem")?;
    let (hardware, problem) =
        ("/hardware/nvidia-h200".to_owned(), format!("/problems/{problem}?hardware=nvidia-h200"));
    for (page, ready, asked) in [
        (&hardware, ".chart path.marks", vec!["split_pages.wasm", "/api/v1/hardware/nvidia-h200"]),
        (&problem, ".chart path.dots", vec!["split_pages.wasm", "/api/v1/models", "/api/v1/problems/"]),
    ] {
        let browser = Browser::start().await?;
        browser.look(Viewport::DESKTOP, Theme::Light).await?;
        browser.open(&format!("{}{page}", server.url()), ready).await?;
        let requests: Vec<(String, String)> = browser
            .script(
                "return performance.getEntriesByType('resource').map((one) => [one.name, one.initiatorType])",
            )
            .await?;
        for part in asked {
            let ends = |name: &str| name.ends_with(part) || part.ends_with('/') && name.contains(part);
            let of_it: Vec<_> = requests.iter().filter(|(name, _)| ends(name)).collect();
            assert!(matches!(of_it[..], [(_, by)] if by == "link"), "{page}: {part}: {requests:?}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chart_of_a_hardware_comes_before_its_boards() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    browser.devtools("Page.addScriptToEvaluateOnNewDocument", json!({ "source": NOTE_ORDER })).await?;
    browser.open(&format!("{}/hardware/nvidia-h200", server.url()), "#board-title").await?;
    let order: Vec<String> = browser.script("return window.order").await?;
    assert_eq!(order, [".chart path.marks", "#board-title"]);
    // Where there is no chart to wait for, the boards are there all the same.
    browser.open(&format!("{}/hardware/nvidia-h200?min_m=wrong", server.url()), "#board-title").await?;
    Ok(())
}
