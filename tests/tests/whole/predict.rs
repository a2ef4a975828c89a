//! Predict and the problem page predict the same times, and no impossible ones.

use std::path::Path;

use diode_tests::{Browser, Server, Theme, Viewport, seed, seeded_server};
use tempfile::TempDir;

const CANDIDATES: &str = "[data-testid=candidates] [data-config]";
const CONFIGS: &str = "[aria-labelledby=configs-title] tbody tr";

const LOOKS: [(Viewport, Theme, &str); 2] =
    [(Viewport::DESKTOP, Theme::Light, "desktop"), (Viewport::PHONE, Theme::Dark, "phone")];

fn says(text: &str) -> String {
    format!("return document.body.innerText.includes('{text}')")
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_problems_are_refused_in_words() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    let on = |hardware: &str, m: u64, n: u64, k: u64| {
        format!("{}/predict?hardware={hardware}&m={m}&n={n}&k={k}&dtype=bfloat16", server.url())
    };
    let page = |m: u64, n: u64, k: u64| on("nvidia-h200", m, n, k);
    for (viewport, theme, name) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&page(1_000_000_000, 4096, 4096), "[data-testid=too-large]").await?;
        browser.until(&says("needs 16.4 TB for A, B and the output, and NVIDIA H200 has 141 GB")).await?;
        browser.sound(&format!("predict-memory-{name}")).await?;
        browser.picture(&format!("predict-memory-{name}")).await?;
        browser.open(&page(1 << 31, 1 << 31, 1 << 31), "[data-testid=too-large]").await?;
        browser.until(&says("needs 27.7 EB")).await?;

        browser.open(&page(1_048_576, 4096, 4096), CANDIDATES).await?;
        browser.until(&says("larger than what it was trained on (up to 401536)")).await?;
        browser.sound(&format!("predict-range-{name}")).await?;
        browser.picture(&format!("predict-range-{name}")).await?;

        // The problem fits into the memory. Each size is in the range of the training, but not the number of
        // operations. The model predicts a rate above the hardware's peak.
        browser.open(&on("nvidia-h100", 50_000, 50_000, 250_000), CANDIDATES).await?;
        browser.until(&says("times the operations of the largest problem that it was trained on")).await?;
        browser.until(&says("the least possible time stands in their place")).await?;
        let floor = 2.0 * 50_000_f64.powi(2) * 250_000.0 / (990e6 * 1980.0 / 1830.0);
        let predicted: Vec<String> = browser
            .script("return [...document.querySelectorAll('[data-predicted-us]')].map((row) => row.dataset.predictedUs)")
            .await?;
        for time in predicted {
            let time: f64 = time.parse()?;
            anyhow::ensure!(time >= floor * 0.9999, "{time} µs is less than the floor of {floor} µs");
        }
        assert_eq!(browser.complaints().await?, Vec::<String>::new());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vector_bias_survives_the_way_there_and_back() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    let rows = server.get(
        "/api/v1/hardware/nvidia-h200/leaderboard?op=addmm&sort=flops&limit=100&method=median-cold-event",
    )?;
    let rows = rows["items"].as_array().cloned().unwrap_or_default();
    let row = rows.iter().find(|row| row["problem"]["bias"] == "vector");
    let row = row.ok_or_else(|| anyhow::anyhow!("no problem with a vector bias among {}", rows.len()))?;
    let id = row["problem_id"].as_str().unwrap_or_default();
    for (viewport, theme, name) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&format!("{}/problems/{id}?hardware=nvidia-h200", server.url()), CONFIGS).await?;
        browser.press("document.querySelector('a.button[href^=\"/predict\"]')").await?;
        browser.wait_for(CANDIDATES).await?;
        browser.until("return location.search.includes('bias=vector')").await?;
        let pressed = "return document.querySelector('[aria-label=Bias] [aria-pressed=true]').textContent";
        assert_eq!(browser.script::<String>(pressed).await?, "vector");
        browser
            .until("return [...document.querySelectorAll('.snippet')].some((one) => one.innerText.includes('--bias vector'))")
            .await?;
        browser.sound(&format!("predict-bias-{name}")).await?;
        browser.picture(&format!("predict-bias-{name}")).await?;
        browser.press("document.querySelector('a[href^=\"/problems/\"]')").await?;
        browser.wait_for(CONFIGS).await?;
        browser.until(&format!("return location.pathname === '/problems/{id}'")).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_has_measured_leads_back_to_its_shape() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    let shape = "op=addmm&b=1&m=1234&n=5672&k=776&dtype=bfloat16&b_layout=column&bias=vector";
    for (viewport, theme, name) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&format!("{}/predict?{shape}&hardware=nvidia-h200", server.url()), CANDIDATES).await?;
        browser.press("document.querySelector('a[href^=\"/problems/\"]')").await?;
        browser.until(&says("Not measured yet")).await?;
        browser.sound(&format!("problem-unmeasured-{name}")).await?;
        browser.picture(&format!("problem-unmeasured-{name}")).await?;
        browser.press("document.querySelector('a.button[href^=\"/predict\"]')").await?;
        browser.wait_for("[data-testid=candidates][data-problem='1234×5672×776']").await?;
        browser.until(&format!("return location.search.includes('{shape}')")).await?;
    }
    Ok(())
}

/// A server on which a problem's page predicts with the model itself, because the models of its cross-validation are
/// missing.
fn server_without_unseen_models() -> anyhow::Result<(TempDir, Server)> {
    let folder = tempfile::tempdir()?;
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trained_models/matmul/nvidia-h200");
    let own = folder.path().join("released/matmul/nvidia-h200");
    std::fs::create_dir_all(own.join("data"))?;
    for file in ["matmul-nvidia-h200.safetensors", "data/h200-mm-bf16-nn.msgpack.zst"] {
        std::fs::copy(shipped.join(file), own.join(file))?;
    }
    seed(&folder.path().join("released"), folder.path())?;
    let server = Server::start(folder.path())?;
    Ok((folder, server))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_has_one_prediction_on_both_pages() -> anyhow::Result<()> {
    let (_folder, server) = server_without_unseen_models()?;
    let browser = Browser::start().await?;
    let board =
        server.get("/api/v1/hardware/nvidia-h200/leaderboard?sort=flops&limit=1&method=median-cold-event")?;
    let id = board["items"][0]["problem_id"].as_str().unwrap_or_default();
    for (viewport, theme, _) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&format!("{}/problems/{id}?hardware=nvidia-h200", server.url()), CONFIGS).await?;
        browser.wait_for("[data-config=library][data-predicted-us]").await?;
        let table = |selector: &str| {
            format!(
                "return [...document.querySelectorAll('{selector} [data-predicted-us]')]
                    .map((row) => [row.dataset.config, Number(row.dataset.predictedUs)])"
            )
        };
        // Shows every row, not only the first hundred.
        browser.press("document.querySelector('.table-foot button')").await?;
        browser.until("return document.querySelectorAll('tr[data-predicted-us]').length > 1000").await?;
        let there: Vec<(String, f64)> = browser.script(&table("[aria-labelledby=configs-title]")).await?;
        // The first row's dot is the leftmost, and the ring must be around it.
        let first = "const ring = document.querySelector('.chart circle.ring').cx.baseVal.value;
                     const dots = document.querySelector('.chart path.dots').getAttribute('d');
                     const xs = [...dots.matchAll(/M([\\d.]+)/g)].map((dot) => Number(dot[1]));
                     return Math.abs(ring - Math.min(...xs)) < 0.1";
        anyhow::ensure!(browser.script::<bool>(first).await?, "the ring is not around the fastest config");
        browser.press("document.querySelector('a.button[href^=\"/predict\"]')").await?;
        browser.wait_for(CANDIDATES).await?;
        let here: Vec<(String, f64)> = browser.script(&table("[data-testid=candidates]")).await?;
        anyhow::ensure!(here.len() == 10, "ten candidates are shown: {here:?}");
        for (config, time) in here {
            let other = there.iter().find(|(label, _)| *label == config);
            let (_, other) = other.ok_or_else(|| anyhow::anyhow!("{config} is in no row of the problem"))?;
            anyhow::ensure!((time / other - 1.0).abs() < 1e-6, "{config}: {time} µs here, {other} µs there");
        }
    }
    Ok(())
}
