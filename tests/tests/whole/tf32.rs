//! Float32 in full and rounded to TF32 are two computations. Pages say which one a config does.

use anyhow::{Context as _, ensure};
use diode_tests::{Browser, LOOKS, seeded_server};

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
            ensure!(said.contains("are not compared") == is_marked, "{look}: {problem}: {said}");
            browser.sound(&format!("tf32-{is_marked}-{look}")).await?;
        }
    }
    browser.quiet("tf32").await
}
