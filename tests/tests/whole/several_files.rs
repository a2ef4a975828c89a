//! Contributing several files at once in a real browser.

use diode_tests::{Browser, Server, Theme, Viewport, collect_on_cpu};
use serde_json::json;
use thirtyfour::By;

/// Drops a file that holds no timings.
const DROP: &str = "const dropped = new DataTransfer();
    dropped.items.add(new File(['{}'], 'dropped.json'));
    document.querySelector('.drop').dispatchEvent(
        new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer: dropped }))";

/// Marks the refusals that the page shows now.
const MARK: &str = "document.querySelectorAll('.failure').forEach((one) => one.dataset.before = '')";

const REFUSED_ANEW: &str = "return [...document.querySelectorAll('.failure:not([data-before])')]
    .some((one) => one.innerText.includes('Not sent: dropped.json'))";

#[tokio::test(flavor = "multi_thread")]
async fn files_are_sent_one_after_the_other_whatever_becomes_of_each() -> anyhow::Result<()> {
    for (viewport, theme, look) in
        [(Viewport::DESKTOP, Theme::Light, "desktop-light"), (Viewport::PHONE, Theme::Dark, "phone-dark")]
    {
        let folder = tempfile::tempdir()?;
        let folder = folder.path();
        let server = Server::start_with(folder, &["--no-worker"])?;
        collect_on_cpu(folder, "first.msgpack.zst", 1, 64)?;
        collect_on_cpu(folder, "second.msgpack.zst", 2, 64)?;
        std::fs::write(folder.join("broken.json"), "{")?;
        std::fs::write(folder.join("empty.json"), "")?;
        let paths = ["first.msgpack.zst", "broken.json", "empty.json", "second.msgpack.zst"]
            .map(|name| folder.join(name).to_string_lossy().into_owned());

        let browser = Browser::start().await?;
        browser.look(viewport, theme).await?;
        browser.open(&format!("{}/contribute", server.url()), "[data-testid=terms]").await?;
        browser.driver.find(By::Css("input[type=file]")).await?.send_keys(paths.join("\n")).await?;
        browser.until("return document.querySelectorAll('.failure').length === 2").await?;
        browser.until("return document.body.innerText.includes('Send all 2 files')").await?;
        browser.press("document.querySelector('[aria-labelledby=files-title] > .button.primary')").await?;
        browser.until("return document.querySelectorAll('[data-testid=receipt]').length === 2").await?;
        let refused: Vec<String> = browser
            .script("return [...document.querySelectorAll('.failure')].map((one) => one.innerText)")
            .await?;
        assert!(refused.iter().any(|text| text.contains("broken.json")), "{refused:?}");
        assert!(refused.iter().any(|text| text.contains("The file is empty")), "{refused:?}");
        assert_eq!(server.get("/api/v1/uploads")?.as_array().map(Vec::len), Some(2));

        // A file that is dropped later is listed above the others. Its second try replaces the
        // first.
        for _ in 0..2 {
            browser.script::<()>(MARK).await?;
            browser.script::<()>(DROP).await?;
            browser.until(REFUSED_ANEW).await?;
        }
        let listed = "return document.querySelectorAll('[data-testid=receipt], .failure').length";
        assert_eq!(browser.script::<usize>(listed).await?, 5);
        browser.looked_at(&format!("several-files-{look}")).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_goes_on_while_the_reader_looks_at_another_page() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::start_with(folder.path(), &["--no-worker"])?;
    collect_on_cpu(folder.path(), "mine.msgpack.zst", 1, 64)?;
    let path = folder.path().join("mine.msgpack.zst").to_string_lossy().into_owned();

    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    browser.open(&format!("{}/contribute", server.url()), "[data-testid=terms]").await?;
    browser.devtools("Network.enable", json!({})).await?;
    let slow = json!({ "offline": false, "latency": 3000, "downloadThroughput": -1, "uploadThroughput": -1 });
    browser.devtools("Network.emulateNetworkConditions", slow).await?;
    browser.driver.find(By::Css("input[type=file]")).await?.send_keys(path).await?;
    browser.wait_for("[data-testid=ready] .button.primary").await?;
    browser.press("document.querySelector('[data-testid=ready] .button.primary')").await?;
    browser.until("return document.body.innerText.includes('Checking and storing mine.msgpack.zst')").await?;
    browser.press("document.querySelector('nav a[href=\"/datasets\"]')").await?;
    browser.until("return location.pathname === '/datasets'").await?;
    browser.press("document.querySelector('nav a[href=\"/contribute\"]')").await?;
    browser.wait_for("[data-testid=receipt]").await?;
    assert_eq!(server.get("/api/v1/uploads")?.as_array().map(Vec::len), Some(1));
    Ok(())
}
