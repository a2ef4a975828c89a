//! Navigation in the dashboard: by keyboard, with the back button, and to addresses that lead nowhere.

use anyhow::Context as _;
use diode_tests::{Browser, Theme, Viewport, seeded_server};
use thirtyfour::prelude::*;

const BOARD_ROWS: &str = "[aria-labelledby=board-title] tbody tr";

const LOOKS: [(Viewport, Theme); 2] = [(Viewport::DESKTOP, Theme::Light), (Viewport::PHONE, Theme::Dark)];

async fn element(browser: &Browser, selector: &str) -> anyhow::Result<WebElement> {
    browser.wait_for(selector).await?;
    browser.driver.find(By::Css(selector)).await.with_context(|| selector.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_arrow_shows_the_order_of_the_rows() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    for (viewport, theme) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&format!("{}/hardware/nvidia-h200?sort=time", server.url()), BOARD_ROWS).await?;
        let order: String = browser
            .script("return document.querySelector('th[aria-sort]').getAttribute('aria-sort')")
            .await?;
        let shown = if order == "ascending" { "asc" } else { "desc" };
        let api = |order: &str| {
            server.get(&format!(
                "/api/v1/hardware/nvidia-h200/leaderboard?method=median-cold-event&sort=time{order}&limit=1"
            ))
        };
        let (without, with) = (api("")?, api(&format!("&order={shown}"))?);
        assert_eq!(without["items"][0]["problem_id"], with["items"][0]["problem_id"], "{order}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn going_back_shows_a_board_as_it_was() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    for (viewport, theme) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&format!("{}/hardware/nvidia-h200?sort=flops", server.url()), BOARD_ROWS).await?;
        let count = format!("return document.querySelectorAll('{BOARD_ROWS}').length");
        let before: u64 = browser.script(&count).await?;
        browser
            .press("[...document.querySelectorAll('button')].find((one) => one.innerText === 'Load more')")
            .await?;
        browser.until(&format!("{count} > {before}")).await?;
        let rows: u64 = browser.script(&count).await?;
        let link = format!("document.querySelector('{BOARD_ROWS}:nth-child({}) a')", rows - 3);
        browser.script::<()>(&format!("{link}.scrollIntoView({{ block: 'center' }})")).await?;
        let scrolled: f64 = browser.script("return window.scrollY").await?;
        anyhow::ensure!(scrolled > 500.0, "the page scrolled to {scrolled}");
        // Contents that appear above must not move what the reader sees.
        let top = format!("{link}.getBoundingClientRect().top");
        let before: f64 = browser.script(&format!("return {top}")).await?;
        browser.press(&link).await?;
        browser.wait_for("[aria-labelledby=configs-title] tbody tr").await?;
        browser.driver.back().await?;
        browser.until(&format!("{count} === {rows}")).await.context("the rows are there again")?;
        browser
            .until(&format!("return window.scrollY > 500 && Math.abs({top} - {before}) < 2"))
            .await
            .context("the page is where it was")?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_can_be_taken_without_the_clipboard() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    let refused = "navigator.clipboard.writeText = () => Promise.reject(new Error('denied'))";
    let absent = "Object.defineProperty(navigator, 'clipboard', { value: undefined, configurable: true })";
    for (viewport, theme) in LOOKS {
        browser.look(viewport, theme).await?;
        for without in [refused, absent] {
            browser.open(&format!("{}/contribute", server.url()), ".snippet .copy").await?;
            browser.script::<()>(without).await?;
            element(&browser, ".snippet .copy").await?.click().await?;
            browser
                .until("return document.querySelector('.snippet .copy').innerText === 'Press Ctrl+C'")
                .await?;
            browser
                .until(
                    "return getSelection().toString() === document.querySelector('.snippet pre').innerText",
                )
                .await
                .context("the command is selected")?;
            browser.until("return document.querySelector('.snippet .copy').innerText === 'Copy'").await?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_are_understood_as_people_write_them() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    for (viewport, theme) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&format!("{}/predict", server.url()), "[data-testid=candidates] [data-config]").await?;
        for (typed, problem) in [
            ("16x4096x11008", "16×4096×11008"),
            ("4,096", "4096×4096×11008"),
            ("1e4", "10000×4096×11008"),
            ("8×512×512×64", "8×512×512×64"),
        ] {
            let field = element(&browser, "input[name=m]").await?;
            field.send_keys(Key::Control + "a").await?;
            field.send_keys(typed).await?;
            field.send_keys(Key::Enter + "").await?;
            browser.wait_for(&format!("[data-testid=candidates][data-problem='{problem}']")).await?;
            let focus: String = browser.script("return document.activeElement.name").await?;
            assert_eq!(focus, "m", "the focus stays");
        }
        let op = "return document.querySelector('[aria-label=Op] [aria-pressed=true]').textContent";
        assert_eq!(browser.script::<String>(op).await?, "bmm", "a batch needs an op that has one");
        assert_eq!(browser.complaints().await?, Vec::<String>::new());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keyboard_reaches_the_content_and_stays_there() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    let focus = "return document.activeElement.tagName";
    for (viewport, theme) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(server.url(), "a.card-link[href^='/hardware/']").await?;
        element(&browser, "body").await?.send_keys(Key::Tab + "").await?;
        let first: String = browser.script("return document.activeElement.innerText").await?;
        assert_eq!(first, "Skip to the content");
        browser.driver.active_element().await?.send_keys(Key::Enter + "").await?;
        assert_eq!(browser.script::<String>(focus).await?, "MAIN");

        // Enter opens another page. The focus must move there, because the field that had it is gone.
        let bar = element(&browser, ".paste textarea").await?;
        bar.send_keys("64x64x64").await?;
        bar.send_keys(Key::Enter + "").await?;
        browser.wait_for("[data-testid=candidates] [data-config]").await?;
        browser.until("return document.activeElement.tagName === 'MAIN'").await?;
        let chosen = element(&browser, "nav a[href='/models']").await?;
        chosen.click().await?;
        browser.wait_for("a.card-link[href^='/models/']").await?;
        browser.until("return document.activeElement !== document.body").await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_does_not_exist_is_a_404_that_leads_on() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let paths = [
        ("/no/such/page", 404),
        ("/predict", 200),
        ("/hardware/nvidia-h200", 200),
        ("/hardware/nvidia-h300", 404),
        ("/datasets/nvidia-h300", 404),
        ("/problems/0123456789abcdef", 404),
        ("/models/any", 404),
    ];
    for (path, expected) in paths {
        let status = match ureq::get(format!("{}{path}", server.url())).call() {
            Ok(answer) => answer.status().as_u16(),
            Err(ureq::Error::StatusCode(status)) => status,
            Err(error) => return Err(error.into()),
        };
        assert_eq!(status, expected, "{path}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_problem_page_does_not_jump_while_it_loads() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    let board =
        server.get("/api/v1/hardware/nvidia-h200/leaderboard?sort=flops&limit=1&method=median-cold-event")?;
    let id = board["items"][0]["problem_id"].as_str().unwrap_or_default();
    for (viewport, theme) in LOOKS {
        browser.look(viewport, theme).await?;
        let page = format!("{}/problems/{id}?hardware=nvidia-h200", server.url());
        browser.open(&page, "[data-config=library][data-predicted-us]").await?;
        let shifts = "window.shifts = window.shifts || [];
            if (!window.observer) {
                window.observer = new PerformanceObserver((list) => window.shifts.push(...list.getEntries()));
                window.observer.observe({ type: 'layout-shift', buffered: true });
            }
            await new Promise((next) => requestAnimationFrame(() => setTimeout(next, 200)));
            return window.shifts.reduce((sum, shift) => sum + shift.value, 0)";
        let shifted: f64 = browser.script(&format!("return (async () => {{ {shifts} }})()")).await?;
        println!("layout shift of the problem page at {viewport:?}: {shifted:.4}");
        anyhow::ensure!(shifted <= 0.02, "the page jumped by {shifted} at {viewport:?}");
    }
    Ok(())
}
