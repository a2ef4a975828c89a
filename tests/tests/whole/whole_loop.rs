//! Collect → upload → leaderboard → train → download → predict, on one machine, with the real programs and
//! a real browser.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use diode_tests::{Browser, Server, Theme, Viewport, collect_on_cpu, diode_command, diode_json};
use serde_json::{Value, json};

const SHAPES: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn the_loop_closes() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let server = Server::start(folder)?;

    collect_and_upload(folder, &server)?;
    let hardware = the_leaderboard_shows_what_was_collected(&server)?;
    let model = train(&server, &hardware, "ranking")?;
    let problem = leaderboard(&server, &hardware)?["items"][0]["problem"].clone();

    std::fs::write(
        folder.join("model.safetensors"),
        server.bytes(&format!("/api/v1/models/{model}/download"))?,
    )?;
    the_command_line_trains_the_same_bytes(folder, &server, &hardware, ("ranking", &model))?;
    // Trains torch-diode's network for comparison. It must not replace the published model.
    let base = train(&server, &hardware, "base")?;
    the_command_line_trains_the_same_bytes(folder, &server, &hardware, ("base", &base))?;
    let summary = server.get(&format!("/api/v1/models/{base}"))?;
    assert_eq!(
        (&summary["model_type"], &summary["state"]),
        (&json!("base"), &json!("unpublished")),
        "{summary}"
    );
    assert_eq!(server.get(&format!("/api/v1/models/{model}"))?["state"], "published");
    let (m, n, k) = (problem["m"].to_string(), problem["n"].to_string(), problem["k"].to_string());
    let sizes = ["--op", "mm", "--m", &m, "--n", &n, "--k", &k, "--dtype", "float32"];
    let predict =
        [&["predict", "--model", "model.safetensors", "--top", "10", "--json"], &sizes[..]].concat();
    let printed = diode_json(folder, &predict)?;
    let by_command: Vec<(String, f64)> = candidates(&printed)?;
    assert_eq!(by_command.len(), 10);
    assert!(by_command.is_sorted_by(|a, b| a.1 <= b.1), "best first: {by_command:?}");

    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    let page = format!("{}/predict?model={model}&op=mm&m={m}&n={n}&k={k}&dtype=float32", server.url());
    browser.open(&page, "[data-testid=candidates] [data-config]").await?;
    let in_browser: Vec<(String, f64)> = browser
        .script(
            "return [...document.querySelectorAll('[data-testid=candidates] [data-config]')]
                .map((row) => [row.dataset.config, Number(row.dataset.predictedUs)])",
        )
        .await?;
    let configs = |all: &[(String, f64)]| all.iter().map(|(config, _)| config.clone()).collect::<Vec<_>>();
    assert_eq!(configs(&in_browser), configs(&by_command), "the browser and the command line rank alike");
    for (there, here) in in_browser.iter().zip(&by_command) {
        assert!(
            (there.1 / here.1 - 1.0).abs() < 1e-5,
            "in the browser {there:?}, on the command line {here:?}"
        );
    }
    assert_eq!(browser.complaints().await?, Vec::<String>::new());
    no_prediction_comes_from_training_on_the_problem(&browser, &server, &hardware, &model).await?;
    the_model_page_shows_how_it_learnt(&browser, &server, &model).await
}

/// Beside a problem's measurements, the page shows predictions of a network that was not trained on the
/// problem: a network of the cross-validation, or the model itself if the problem is kept.
async fn no_prediction_comes_from_training_on_the_problem(
    browser: &Browser,
    server: &Server,
    hardware: &str,
    model: &str,
) -> anyhow::Result<()> {
    let board = leaderboard(server, hardware)?;
    let itself = server.bytes(&format!("/api/v1/models/{model}/download"))?;
    let mut learnt = 0;
    for row in board["items"].as_array().context("items")? {
        let id = row["problem_id"].as_str().context("a problem has an id")?;
        let is_learnt = server.bytes(&format!("/api/v1/models/{model}/unseen/{id}"))? != itself;
        let note = if is_learnt { "was trained without this problem" } else { "has not learnt this problem" };
        learnt += usize::from(is_learnt);
        browser
            .open(
                &format!("{}/problems/{id}?hardware={hardware}", server.url()),
                "[aria-label='Measured and predicted'] .chart .marks",
            )
            .await?;
        let shown: String = browser
            .script("return document.querySelector('[aria-label=\"Measured and predicted\"]').textContent")
            .await?;
        assert!(shown.contains(note) && shown.contains(model), "{id}: {shown}");
        assert_eq!(browser.complaints().await?, Vec::<String>::new(), "{id}");
    }
    let trained = server.get(&format!("/api/v1/models/{model}"))?["training_problems"].clone();
    assert_eq!(json!(learnt), trained);
    Ok(())
}

/// Checks that the page shows the losses of the training's events as a chart and as a table.
async fn the_model_page_shows_how_it_learnt(
    browser: &Browser,
    server: &Server,
    model: &str,
) -> anyhow::Result<()> {
    let job = server.get(&format!("/api/v1/models/{model}"))?["job"].as_str().context("a job")?.to_owned();
    let events = String::from_utf8(server.bytes(&format!("/api/v1/jobs/{job}/events"))?)?;
    let losses: Vec<&str> =
        events.split(", loss ").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(!losses.is_empty(), "{events}");
    let kept = server.get(&format!("/api/v1/models/{model}"))?["kept"].clone();
    let baselines = kept["baselines"].as_object().context("choices without a model")?;
    assert!(baselines.keys().any(|what| what.contains("every Triton config timed")), "{kept}");
    for (viewport, theme, look) in [
        (Viewport::DESKTOP, Theme::Light, "desktop-light"),
        (Viewport::DESKTOP, Theme::Dark, "desktop-dark"),
        (Viewport::PHONE, Theme::Light, "phone-light"),
        (Viewport::PHONE, Theme::Dark, "phone-dark"),
    ] {
        browser.look(viewport, theme).await?;
        browser
            .open(&format!("{}/models/{model}", server.url()), "[data-testid=curves] .chart .marks")
            .await?;
        let shown: Vec<String> = browser
            .script("return [...document.querySelectorAll('[data-testid=losses] td:last-child')].map((cell) => cell.textContent)")
            .await?;
        assert!(!shown.is_empty() && shown.iter().all(|loss| losses.contains(&loss.as_str())), "{shown:?}");
        assert!(shown.len() <= losses.len(), "{} of {}", shown.len(), losses.len());
        let choices: Vec<String> = browser
            .script("return [...document.querySelectorAll('[data-testid=baselines] tbody td:first-child')].map((cell) => cell.textContent)")
            .await?;
        assert_eq!(choices[0], "the model's first pick", "{look}");
        assert!(baselines.keys().all(|what| choices.contains(what)), "{look}: {choices:?} of {kept}");
        browser.script::<()>("document.querySelector('[data-testid=baselines]').scrollIntoView()").await?;
        browser.picture(&format!("baselines-{look}")).await?;
        browser.script::<()>("document.querySelector('[data-testid=curves]').scrollIntoView()").await?;
        browser.picture(&format!("curves-{look}")).await?;
        assert_eq!(browser.overflow().await?, 0, "{look}: wider than the window");
        assert_eq!(browser.inaccessible().await?, Vec::<String>::new(), "{look}");
        assert_eq!(browser.complaints().await?, Vec::<String>::new(), "{look}");
    }
    Ok(())
}

fn collect_and_upload(folder: &std::path::Path, server: &Server) -> anyhow::Result<()> {
    collect_on_cpu(folder, "cpu.msgpack.zst", SHAPES, 160)?;
    let upload = ["upload", "cpu.msgpack.zst", "--server", server.url(), "--json"];
    let first = diode_json(folder, &upload)?;
    assert_eq!(first[0]["already_stored"], json!(false));
    assert_eq!(first[0]["new_solutions"], json!(SHAPES));
    let again = diode_json(folder, &upload)?;
    assert_eq!(again[0]["already_stored"], json!(true));
    Ok(())
}

fn leaderboard(server: &Server, hardware: &str) -> anyhow::Result<Value> {
    server.get(&format!("/api/v1/hardware/{hardware}/leaderboard?sort=time&order=asc"))
}

fn the_leaderboard_shows_what_was_collected(server: &Server) -> anyhow::Result<String> {
    let hardware = server.get("/api/v1/hardware")?;
    assert_eq!(hardware.as_array().map(Vec::len), Some(1), "one node collected: {hardware}");
    let slug = hardware[0]["slug"].as_str().context("hardware has a slug")?.to_owned();
    assert!(slug.starts_with("cpu-"), "{slug}");
    let page = leaderboard(server, &slug)?;
    assert_eq!(page["total"], json!(SHAPES));
    let rows = page["items"].as_array().context("items")?;
    let times: Vec<f64> = rows.iter().filter_map(|row| row["best_us"].as_f64()).collect();
    assert_eq!(times.len(), SHAPES);
    assert!(times.is_sorted() && times[0] > 0.0, "{times:?}");
    Ok(slug)
}

/// Starts a training and waits for its model.
fn train(server: &Server, hardware: &str, model_type: &str) -> anyhow::Result<String> {
    let request =
        json!({ "kind": "train", "heuristic": "matmul", "hardware": hardware, "model_type": model_type });
    let job = server.post("/api/v1/jobs", &request)?;
    let id = job["id"].as_str().context("a job has an id")?;
    let deadline = Instant::now() + Duration::from_secs(240);
    loop {
        let job = server.get(&format!("/api/v1/jobs/{id}"))?;
        match job["state"].as_str() {
            Some("done") => {
                // A client that comes late still gets all events of the job.
                let events = String::from_utf8(server.bytes(&format!("/api/v1/jobs/{id}/events"))?)?;
                assert!(events.contains("\"state\":\"running\""), "{events}");
                assert!(events.contains("\"state\":\"done\""), "{events}");
                return Ok(job["model"].as_str().context("a finished training has a model")?.to_owned());
            }
            Some("failed") => bail!("training failed: {}", job["error"]),
            _ if Instant::now() > deadline => bail!("training is not done after 240 s: {job}"),
            _ => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// Training on the command line with the server's data, seed and date must give the server's file.
fn the_command_line_trains_the_same_bytes(
    folder: &std::path::Path,
    server: &Server,
    hardware: &str,
    (model_type, model): (&str, &str),
) -> anyhow::Result<()> {
    let dataset = format!("{hardware}.msgpack.zst");
    std::fs::write(folder.join(&dataset), server.bytes(&format!("/api/v1/datasets/{dataset}"))?)?;
    let summary = server.get(&format!("/api/v1/models/{model}"))?;
    let date: jiff::Timestamp = summary["created_at"].as_str().context("a date")?.parse()?;
    let mut train = vec!["train", "--data", &dataset, "--model", "same.safetensors", "--seed", "0"];
    train.extend(["--without-kept", "--force", "--model-type", model_type]);
    let mut command = diode_command(folder, &train)?;
    let output = command.env("SOURCE_DATE_EPOCH", date.as_second().to_string()).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let there = server.bytes(&format!("/api/v1/models/{model}/download"))?;
    assert!(there == std::fs::read(folder.join("same.safetensors"))?, "the files differ");
    Ok(())
}

/// The label and the predicted time of each candidate, in order.
fn candidates(prediction: &Value) -> anyhow::Result<Vec<(String, f64)>> {
    let list = prediction["candidates"].as_array().context("candidates")?;
    list.iter()
        .map(|c| {
            let label = format!(
                "{}x{}x{} s{} w{}",
                c["block_m"], c["block_n"], c["block_k"], c["num_stages"], c["num_warps"]
            );
            Ok((label, c["predicted_us"].as_f64().context("predicted_us")?))
        })
        .collect()
}
