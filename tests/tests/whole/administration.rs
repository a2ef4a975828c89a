//! The pages that a server writes itself, as administrators and contributors see them, and the jobs on the page
//! Models. Set DIODE_SCREENSHOTS to an absolute path to keep pictures.

use anyhow::{Context as _, ensure};
use diode_tests::{Browser, LOOKS, Server, collect_on_cpu, diode, seeded_server};
use serde_json::json;
use thirtyfour::By;

#[tokio::test(flavor = "multi_thread")]
async fn administrators_look_after_a_server_in_the_browser() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let server = Server::start_with(folder, &["--no-worker"])?;
    collect_on_cpu(folder, "a.msgpack.zst", 1, 64)?;
    diode(folder, &["upload", "a.msgpack.zst", "--server", server.url()])?;
    let browser = Browser::start().await?;
    browser.sign_in_as_administrator(&server, folder).await?;
    // The server does what a form says, and records it.
    browser.open(&format!("{}/admin/uploads", server.url()), "[data-testid=uploads] a").await?;
    browser.press("document.querySelector('[data-testid=uploads] a')").await?;
    browser.wait_for("details form").await?;
    browser.press("document.querySelector('details summary')").await?;
    browser.driver.find(By::Css("details input[name=reason]")).await?.send_keys("a bad GPU").await?;
    browser.press("document.querySelector('details button[value=quarantine]')").await?;
    browser.until("return document.body.innerText.includes('1 upload changed')").await?;
    let uploads = server.get("/api/v1/uploads")?;
    ensure!(uploads[0]["standing"] == "quarantined" && uploads[0]["reason"] == "a bad GPU", "{uploads}");
    browser.open(&format!("{}/admin", server.url()), "main strong").await?;
    browser.until("return document.body.innerText.includes('a bad GPU')").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_followed_and_cancelled_on_the_page_of_models() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    let page = format!("{}/models", server.url());
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&page, "[data-testid=jobs]").await?;
        browser.sound(&format!("jobs {look}")).await?;
    }
    let request = json!({
        "kind": "train", "heuristic": "matmul", "hardware": "nvidia-h100", "model_type": "deep",
    });
    let job = server.post("/api/v1/jobs", &request)?;
    let id = job["id"].as_str().context("an id")?.to_owned();
    browser.open(&page, &format!("[data-testid=jobs] [data-job='{id}'] button")).await?;
    browser.until("return document.querySelector('[data-testid=jobs]').innerText.includes('training of deep, nvidia-h100')").await?;
    browser.sound("a job that runs").await?;
    browser.picture("jobs").await?;
    browser.press(&format!("document.querySelector(\"[data-job='{id}'] button\")")).await?;
    browser.wait_for("[data-testid=jobs] tbody tr").await?;
    let state = server.get(&format!("/api/v1/jobs/{id}"))?["state"].clone();
    ensure!(state == "cancelled", "{state}");
    browser
        .until("return document.querySelector('[data-testid=jobs] tbody tr').innerText.includes('cancelled')")
        .await
}
