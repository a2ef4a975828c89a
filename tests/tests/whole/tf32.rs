//! Float32 in full and rounded to TF32 are two computations. Pages say which one a config does, and compare only like with
//! like.

use anyhow::{Context as _, ensure};
use diode_tests::{Browser, LOOKS, Theme, Viewport, seeded_server};

#[tokio::test(flavor = "multi_thread")]
async fn a_config_that_rounds_to_tf32_is_marked() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    // Rounding to TF32 makes a multiplication several times as fast. So configs that round are at the
    // board's fast end, and others at its slow end.
    let end_of_board = |order: &str, rounds: bool| {
        let path = "/api/v1/hardware/nvidia-h200/leaderboard?dtype=float32&kernels=triton&sort=tflops";
        let board = server.get(&format!("{path}&order={order}&limit=50"))?;
        let rows = board["items"].as_array().context("rows")?;
        let row = rows.iter().find(|row| row["triton"]["config"]["allow_tf32"] == rounds);
        let id = row.and_then(|row| row["problem_id"].as_str()).context("a problem")?;
        anyhow::Ok(id.to_owned())
    };
    let (rounded, full) = (end_of_board("desc", true)?, end_of_board("asc", false)?);
    let browser = Browser::start().await?;
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        for (problem, is_marked) in [(&rounded, true), (&full, false)] {
            let page = format!("{}/problems/{problem}?hardware=nvidia-h200", server.url());
            browser.open(&page, "[aria-labelledby=configs-title] tbody tr[data-config]").await?;
            let said: String = browser.script("return document.querySelector('main').innerText").await?;
            ensure!(said.contains(" TF32") == is_marked, "{look}: {problem}: {said}");
            // A comparison is denied exactly where there is none.
            let detail = server.get(&format!("/api/v1/problems/{problem}?hardware=nvidia-h200"))?;
            let is_compared = detail["triton_over_library"].is_number();
            let has_both = detail["triton"].is_object() && detail["library"].is_object();
            ensure!(
                said.contains("are not compared") == (has_both && !is_compared),
                "{look}: {problem}: {said}"
            );
            browser.sound(&format!("tf32-{is_marked}-{look}")).await?;
        }
    }
    browser.quiet("tf32").await
}

/// Whether the measured config of a problem rounds is part of its point, so that the model's page predicts the same
/// computation. In full, float32 takes several times as long.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_judged_by_the_computation_that_was_timed() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let points =
        server.get("/api/v1/hardware/nvidia-h200/problems?dtype=float32&method=median-cold-event")?;
    let points = points.as_array().context("points")?;
    let rounded = points.iter().filter(|point| point["triton_rounds"] == true).count();
    ensure!(rounded > 10 && rounded < points.len(), "{rounded} of {} points round", points.len());
    for point in points.iter().take(20) {
        let id = point["problem_id"].as_str().context("an id")?;
        let detail =
            server.get(&format!("/api/v1/problems/{id}?hardware=nvidia-h200&method=median-cold-event"))?;
        let rounds = detail["triton"]["config"]["allow_tf32"] == true;
        ensure!(rounds == (point["triton_rounds"] == true), "{id}: {detail}");
    }
    let models = server.get("/api/v1/models?hardware=nvidia-h200")?;
    let id = models[0]["id"].as_str().context("a model")?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    browser.open(&format!("{}/models/{id}", server.url()), "[data-testid=worst] tbody tr").await?;
    let worst: Vec<Vec<String>> = browser
        .script(
            "return [...document.querySelectorAll('[data-testid=worst] tbody tr')]
                .map((row) => [...row.cells].map((cell) => cell.innerText))",
        )
        .await?;
    for row in &worst {
        let factor: f64 = row[3].trim_end_matches('×').parse()?;
        ensure!(!row[0].contains("fp32") || (0.5..2.0).contains(&factor), "{row:?}");
    }
    browser.quiet("judged").await
}
