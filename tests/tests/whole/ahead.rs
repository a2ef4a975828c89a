//! Pages request early what they need, and build their parts in reading order.

use std::collections::BTreeSet;

use anyhow::Context;
use diode_tests::{Browser, Server, Theme, Viewport, seeded};

/// Records the order in which the chart and the board of a hardware appear.
const NOTE_ORDER: &str = "window.order = [];
    const note = (selector) => {
        if (!window.order.includes(selector) && document.querySelector(selector)) window.order.push(selector);
    };
    new MutationObserver(() => ['.chart path.marks', '#board-title'].forEach(note))
        .observe(document, { subtree: true, childList: true });";

/// Holds the app's program back until a test calls `window.run_app()`.
const HOLD_APP: &str = "const stream = WebAssembly.instantiateStreaming;
    const held = new Promise((resolve) => { window.run_app = resolve; });
    WebAssembly.instantiateStreaming = async (...what) => { await held; return stream.apply(WebAssembly, what); }";

#[tokio::test(flavor = "multi_thread")]
async fn a_page_asks_early_and_once_for_what_it_needs() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let board = server.get("/api/v1/hardware/nvidia-h200/leaderboard?limit=1")?;
    let problem = board["items"][0]["problem_id"].as_str().context("no problem")?;
    let page_of_problem = format!("/problems/{problem}?hardware=nvidia-h200&method=median-cold-event");
    let hardware = "/hardware/nvidia-h200";
    let filtered = format!("{hardware}?min_m=1024&op=mm&dtype=bfloat16");
    let predict = "/predict?hardware=nvidia-h200&m=512&n=512&k=512";
    let marks = ".chart path.marks";
    for (page, ready, asked) in [
        ("/", "a.card-link[href^='/hardware/']", vec!["/hardware", "/models"]),
        (hardware, marks, vec![hardware]),
        (&filtered, marks, vec![hardware]),
        (&page_of_problem, ".chart path.dots", vec![&page_of_problem, "/models"]),
        (predict, "[data-testid=candidates] [data-config]", vec!["/models?model_type=ranking"]),
    ] {
        let browser = Browser::start().await?;
        browser.look(Viewport::DESKTOP, Theme::Light).await?;
        browser.before_scripts(HOLD_APP).await?;
        // The page must send its requests while the app is held back, and must not repeat them once the app
        // runs.
        browser.driver.goto(format!("{}{page}", server.url())).await?;
        let requests = "return performance.getEntriesByType('resource').map((one) => one.name)
            .filter((name) => name.includes('/api/v1/')).map((name) => name.split('/api/v1')[1])";
        let asked: BTreeSet<String> = asked.into_iter().map(str::to_owned).collect();
        let early = || async { anyhow::Ok(browser.script::<Vec<String>>(requests).await?) };
        browser.until_still().await;
        assert_eq!(early().await?.into_iter().collect::<BTreeSet<_>>(), asked, "{page}");
        // Until the app runs, the server's heading stands in the page. It is that of the app's page.
        let heading: String = browser.script("return document.querySelector('#early h1').innerText").await?;
        let paints = "return performance.getEntriesByName('first-contentful-paint').length";
        assert_eq!(browser.script::<usize>(paints).await?, 1, "{page}: nothing was painted");
        browser.script::<()>("window.run_app()").await?;
        browser.wait_for(ready).await?;
        let left: bool = browser.script("return document.getElementById('early') !== null").await?;
        assert!(!left, "{page}: two headers");
        assert_eq!(
            browser.script::<String>("return document.querySelector('main h1').innerText").await?.trim(),
            heading
        );
        let all: Vec<String> = browser.script(requests).await?;
        for path in &asked {
            // The app ends its own queries with an `&`.
            let times = all.iter().filter(|one| one.trim_end_matches('&') == path).count();
            assert_eq!(times, 1, "{page}: {path}: {all:?}");
        }
        assert_eq!(browser.complaints().await?, Vec::<String>::new(), "{page}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chart_of_a_hardware_comes_before_its_boards() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    browser.before_scripts(NOTE_ORDER).await?;
    browser.open(&format!("{}/hardware/nvidia-h200", server.url()), "#board-title").await?;
    let order: Vec<String> = browser.script("return window.order").await?;
    assert_eq!(order, [".chart path.marks", "#board-title"]);
    // Where there is no chart to wait for, the board must appear all the same.
    browser.open(&format!("{}/hardware/nvidia-h200?min_m=wrong", server.url()), "#board-title").await?;
    Ok(())
}
