//! The chart of a hardware's problems follows the filters, zooms, and works by pointer, finger and keys. Set
//! DIODE_SCREENSHOTS to an absolute path to keep pictures.

use anyhow::{Context as _, ensure};
use diode_tests::{Browser, Server, Theme, Viewport, seeded};
use serde_json::{Value, json};

const CHART: &str = "[aria-label='Chart of the problems']";
const MARKS: &str = "[aria-label='Chart of the problems'] .chart .marks";

/// Returns the number of dots. The outline of each dot begins with an `M`.
fn dots() -> String {
    format!(
        "return [...document.querySelectorAll(\"{MARKS}\")].map((path) => path.getAttribute('d').split('M').length - 1)
            .reduce((sum, count) => sum + count, 0)"
    )
}

async fn settled(browser: &Browser, expected: usize) -> anyhow::Result<()> {
    let drawn = dots().replacen("return", "const drawn =", 1);
    browser.until(&format!("{drawn}; return drawn === {expected}")).await
}

/// The server's points that the chart can draw.
fn drawable(server: &Server, query: &str) -> anyhow::Result<Vec<Value>> {
    let points = server.get(&format!("/api/v1/hardware/nvidia-h100/problems{query}"))?;
    let points = points.as_array().context("points")?.clone();
    Ok(points.into_iter().filter(|point| point["triton_roofline_share"].is_number()).collect())
}

async fn key(browser: &Browser, key: &str) -> anyhow::Result<()> {
    let press = format!(
        "document.querySelector(\"{CHART} .chart\").dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}', bubbles: true }}))"
    );
    browser.script(&press).await
}

const TOOLTIP: &str = "const tip = document.querySelector('.tooltip'); return tip ? tip.innerText : ''";

#[tokio::test(flavor = "multi_thread")]
async fn the_chart_follows_the_filters_and_the_keys() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    let page = format!("{}/hardware/nvidia-h100", server.url());
    browser.open(&page, MARKS).await?;
    let all = drawable(&server, "")?.len();
    settled(&browser, all).await?;
    browser.sound("chart-desktop-light").await?;
    browser.picture("chart-desktop-light").await?;

    let query = "?dtype=float16&min_m=256";
    let filtered = drawable(&server, query)?.len();
    ensure!(filtered > 10 && filtered < all / 2, "{filtered} of {all}");
    browser.open(&format!("{page}{query}"), MARKS).await?;
    settled(&browser, filtered).await?;
    let tones: Vec<String> = browser
        .script(&format!(
            "return [...document.querySelectorAll(\"{MARKS}\")].map((path) => path.classList[1])"
        ))
        .await?;
    ensure!(tones.iter().any(|tone| tone.starts_with("triton")), "{tones:?}");
    ensure!(tones.iter().any(|tone| tone.starts_with("library")), "{tones:?}");

    // Keys choose the first dot, zoom in on it, and zoom out again.
    key(&browser, "ArrowRight").await?;
    let first: String = browser.script(TOOLTIP).await?;
    ensure!(first.contains("float16") && first.contains("of the roofline"), "{first}");
    key(&browser, "ArrowRight").await?;
    let second: String = browser.script(TOOLTIP).await?;
    ensure!(first != second, "{first}");
    for _ in 0..3 {
        key(&browser, "+").await?;
    }
    let near: usize = browser.script(&dots()).await?;
    ensure!(near > 0 && near < filtered, "{near} of {filtered}");
    browser.sound("chart-zoomed").await?;
    browser.picture("chart-zoomed").await?;
    key(&browser, "0").await?;
    settled(&browser, filtered).await?;
    key(&browser, "Enter").await?;
    browser.until("return location.pathname.startsWith('/problems/')").await?;
    assert_eq!(browser.complaints().await?, Vec::<String>::new());
    Ok(())
}

/// Returns where in the window the dot nearest to the middle of the chart lies.
const SOME_DOT: &str = "
    const chart = document.querySelector(\"[aria-label='Chart of the problems'] .chart\");
    chart.scrollIntoView({ block: 'center' });
    const box = chart.getBoundingClientRect();
    const paths = [...chart.querySelectorAll('.marks')].map((path) => path.getAttribute('d')).join('');
    const places = [...paths.matchAll(/M([0-9.]+) ([0-9.]+)/g)].map((found) => found.slice(1).map(Number));
    const far = ([x, y]) => Math.hypot(x - box.width / 2, y - box.height / 2);
    const [x, y] = places.reduce((best, place) => (far(place) < far(best) ? place : best));
    return [box.left + x, box.top + y]";

/// Opens all that a phone shows folded: the filters of sizes, and the chart.
const UNFOLD: &str = "document.querySelectorAll('main details').forEach((one) => { one.open = true })";

#[tokio::test(flavor = "multi_thread")]
async fn pointers_preview_and_choose_a_part_and_fingers_preview_first() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    let page = format!("{}/hardware/nvidia-h100?op=mm", server.url());
    browser.look(Viewport::DESKTOP, Theme::Dark).await?;
    browser.open(&page, MARKS).await?;
    let all: usize = browser.script(&dots()).await?;
    let (x, y): (f64, f64) = browser.script(SOME_DOT).await?;
    let mouse = |kind: &str, x: f64, y: f64, buttons: u32| {
        let button = if kind == "mouseMoved" && buttons == 0 { "none" } else { "left" };
        json!({ "type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": 1 })
    };
    browser.devtools("Input.dispatchMouseEvent", mouse("mouseMoved", x, y, 0)).await?;
    browser.until("return !!document.querySelector('.tooltip')").await?;
    browser.sound("chart-desktop-dark").await?;
    browser.picture("chart-desktop-dark").await?;
    // Zooms into the area around the dot.
    browser.devtools("Input.dispatchMouseEvent", mouse("mousePressed", x - 60.0, y - 40.0, 1)).await?;
    browser.devtools("Input.dispatchMouseEvent", mouse("mouseMoved", x + 60.0, y + 40.0, 1)).await?;
    browser.devtools("Input.dispatchMouseEvent", mouse("mouseReleased", x + 60.0, y + 40.0, 0)).await?;
    let fewer = dots().replacen("return", "const drawn =", 1);
    browser.until(&format!("{fewer}; return drawn > 0 && drawn < {all}")).await?;
    ensure!(
        browser.script::<bool>("return location.pathname.startsWith('/hardware/')").await?,
        "dragging opens nothing"
    );

    // On phones the chart is folded until the reader opens it.
    browser.look(Viewport::PHONE, Theme::Light).await?;
    browser.open(&page, "main details summary").await?;
    browser.script::<()>(UNFOLD).await?;
    browser.wait_for(MARKS).await?;
    browser.until_still().await;
    // What comes later may fold or move the chart.
    browser.script::<()>(UNFOLD).await?;
    let _: (f64, f64) = browser.script(SOME_DOT).await?;
    browser.until_still().await;
    let (x, y): (f64, f64) = browser.script(SOME_DOT).await?;
    for (kind, points) in [("touchStart", json!([{ "x": x, "y": y }])), ("touchEnd", json!([]))] {
        browser.devtools("Input.dispatchTouchEvent", json!({ "type": kind, "touchPoints": points })).await?;
    }
    browser.wait_for(".tooltip.pinned a").await?;
    browser.sound("chart-phone-light").await?;
    browser.picture("chart-phone-light").await?;
    ensure!(browser.overflow().await? == 0, "wider than the window");
    browser.press("document.querySelector('.tooltip.pinned a')").await?;
    browser.until("return location.pathname.startsWith('/problems/')").await?;
    assert_eq!(browser.complaints().await?, Vec::<String>::new());
    Ok(())
}
