//! The browser predicts the same times as the command line. It needs no server once it has loaded the
//! model.

use anyhow::{Context as _, ensure};
use diode_tests::{Browser, Server, Theme, Viewport, config_label, diode_json, seeded};
use serde_json::json;

const CANDIDATES: &str = "[data-testid=candidates] [data-config]";

/// Returns each row's config and predicted time.
const ROWS: &str = "return [...document.querySelectorAll('[data-testid=candidates] [data-config]')]
    .map((row) => [row.dataset.config, Number(row.dataset.predictedUs)])";

/// The number of shapes of each kind.
const SHAPES: u64 = 50;

/// A kind of problem: its flags on the command line, its parameters in the address, and whether it has a
/// batch.
const KINDS: [(&[&str], &str, bool); 4] = [
    (&["--dtype", "bfloat16"], "op=mm&dtype=bfloat16", false),
    (
        &["--op", "addmm", "--dtype", "bfloat16", "--b-layout", "column", "--bias", "vector"],
        "op=addmm&dtype=bfloat16&b_layout=column&bias=vector",
        false,
    ),
    (&["--op", "bmm", "--dtype", "float16"], "op=bmm&dtype=float16", true),
    (&["--dtype", "float32"], "op=mm&dtype=float32", false),
];

/// Sizes from small to large, some round and some odd.
fn sizes(kind: u64, number: u64) -> [u64; 4] {
    let mut state = 1 + kind * SHAPES + number;
    let mut next = |least: u64, bits: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bit = (state >> 33) % bits;
        let odd = (state >> 45) % 7;
        (least << bit) + if odd < 2 { odd * 8 + 1 } else { 0 }
    };
    [next(2, 4), next(1, 14), next(64, 9), next(64, 8)]
}

fn type_in(fields: &[(&str, u64)]) -> String {
    let set = fields.iter().map(|(name, size)| {
        format!(
            "{{ const field = document.querySelector('input[name={name}]');
                field.value = '{size}';
                field.dispatchEvent(new Event('input', {{ bubbles: true }})); }}"
        )
    });
    set.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_shapes_are_predicted_alike_in_the_browser_and_on_the_command_line() -> anyhow::Result<()>
{
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    let (mut shapes, mut candidates, mut furthest) = (0, 0, 0.0_f64);
    for (kind, (flags, query, is_batched)) in (0..).zip(KINDS) {
        let all: Vec<[u64; 4]> = (0..SHAPES).map(|number| sizes(kind, number)).collect();
        let written = |[b, m, n, k]: &[u64; 4]| {
            if is_batched { format!("{b}x{m}x{n}x{k}") } else { format!("{m}x{n}x{k}") }
        };
        let list: Vec<String> = all.iter().map(written).collect();
        std::fs::write(folder.path().join("sizes.txt"), list.join("\n"))?;
        let ask = ["predict", "--list", "sizes.txt", "--hardware", "nvidia-h200", "--top", "10", "--json"];
        let told = diode_json(folder.path(), &[&ask[..], flags].concat())?;
        let told = told.as_array().context("a list")?;
        ensure!(told.len() == all.len());
        let page = format!("{}/predict?hardware=nvidia-h200&{query}", server.url());
        browser.open(&format!("{page}&b=2&m=7&n=7&k=7"), CANDIDATES).await?;
        for ((sizes, name), told) in all.iter().zip(&list).zip(told) {
            let [b, m, n, k] = *sizes;
            let batch: &[(&str, u64)] = if is_batched { &[("b", b)] } else { &[] };
            browser.script::<()>(&type_in(&[batch, &[("m", m), ("n", n), ("k", k)]].concat())).await?;
            let shown = name.replace('x', "×");
            browser.wait_for(&format!("[data-testid=candidates][data-problem='{shown}']")).await?;
            let here: Vec<(String, f64)> = browser.script(ROWS).await?;
            let there = told["candidates"].as_array().with_context(|| format!("{name} has no prediction"))?;
            ensure!(here.len() == there.len() && here.len() == 10, "{name}: {} rows", here.len());
            for ((config, us), there) in here.iter().zip(there) {
                let predicted = there["predicted_us"].as_f64().context("a time")?;
                let apart = (us / predicted - 1.0).abs();
                ensure!(
                    *config == config_label(there) && apart < 1e-5,
                    "{query} {name}: {config} {us} µs here, {} {predicted} µs on the command line",
                    config_label(there)
                );
                furthest = furthest.max(apart);
            }
            shapes += 1;
            candidates += here.len();
        }
    }
    println!("{candidates} predictions of {shapes} shapes differ by {furthest:.1e} at most");
    assert_eq!(shapes, 200);
    assert_eq!(browser.complaints().await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn predicting_goes_on_without_a_network() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    for (viewport, theme) in [(Viewport::DESKTOP, Theme::Light), (Viewport::PHONE, Theme::Dark)] {
        browser.look(viewport, theme).await?;
        let page = format!("{}/predict?hardware=nvidia-h200&m=512&n=512&k=512", server.url());
        browser.open(&page, CANDIDATES).await?;
        browser.devtools("Network.enable", json!({})).await?;
        let network = |offline: bool| json!({ "offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1 });
        browser.devtools("Network.emulateNetworkConditions", network(true)).await?;
        ensure!(browser.script::<bool>("return fetch('/healthz').then(() => false, () => true)").await?);
        let before: Vec<(String, f64)> = browser.script(ROWS).await?;
        browser.script::<()>(&type_in(&[("m", 3000), ("k", 777)])).await?;
        browser.wait_for("[data-testid=candidates][data-problem='3000×512×777']").await?;
        let after: Vec<(String, f64)> = browser.script(ROWS).await?;
        ensure!(before[0].1 < after[0].1, "{before:?} {after:?}");
        browser.until("return location.search.includes('m=3000')").await?;
        browser.devtools("Network.emulateNetworkConditions", network(false)).await?;
    }
    Ok(())
}
