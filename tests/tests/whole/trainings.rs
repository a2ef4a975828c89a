//! A person with an account starts a training, follows it on the page of models, and cancels it there. Set
//! DIODE_SCREENSHOTS to an absolute path to keep pictures.

use std::path::Path;

use anyhow::{Context as _, ensure};
use diode_tests::{Browser, LOOKS, Server, diode};

/// So much data that a training takes minutes.
const DATA: &str = "../trained_models/matmul/nvidia-h100/data";
const FILES: [&str; 3] =
    ["h100-mm-bf16-nn.msgpack.zst", "h100-mm-bf16-nt.msgpack.zst", "h100-bmm-bf16.msgpack.zst"];

const JOB: &str = "#train [data-testid=job]";

fn share() -> String {
    format!("Number(document.querySelector('{JOB} [role=progressbar]').getAttribute('aria-valuenow'))")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_training_tells_its_loss_and_its_end_and_whoever_asked_cancels_it() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::start_with(folder.path(), &["--anonymous", "uploads", "--sign-ups", "open"])?;
    for file in FILES {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join(DATA).join(file);
        let data = data.to_str().context("a path in UTF-8")?;
        diode(folder.path(), &["upload", data, "--server", server.url(), "--agree", "1"])?;
    }
    let ada = Browser::start().await?;
    ada.sign_up(&server, "ada").await?;
    ada.open(&format!("{}/models?hardware=nvidia-h100", server.url()), "#train .button.primary").await?;
    ada.press("document.querySelector('#train .button.primary')").await?;
    ada.until("return location.search.includes('job=')").await?;
    let page = ada.driver.current_url().await?.to_string();
    for (viewport, theme, look) in LOOKS {
        ada.look(viewport, theme).await?;
        // The address names the job, so the page shows the job again after a reload.
        ada.open(&page, JOB).await?;
        let says = "const said = document.querySelector(\"#train [data-testid=job]\").innerText;
            return /: epoch \\d+ of \\d+, loss \\d/.test(said) && / · about \\d+ (s|min) left/.test(said)";
        ada.until(says).await?;
        ada.sound(look).await?;
        ada.script::<()>("document.querySelector('#train').scrollIntoView()").await?;
        ada.picture(&format!("training-{look}")).await?;
    }
    let so_far: u32 = ada.script(&format!("return {}", share())).await?;
    ada.until(&format!("return {} > {so_far}", share())).await?;

    // Other accounts may not cancel it.
    let job = ada.script::<String>(&format!("return document.querySelector('{JOB}').dataset.job")).await?;
    let state = || Ok::<_, anyhow::Error>(server.get(&format!("/api/v1/jobs/{job}"))?["state"].clone());
    let bob = Browser::start().await?;
    bob.sign_up(&server, "bob").await?;
    let of_job = format!("[data-testid=jobs] [data-job='{job}']");
    bob.open(&format!("{}/models", server.url()), &format!("{of_job} button")).await?;
    bob.press(&format!("document.querySelector(\"{of_job} button\")")).await?;
    bob.until(&format!(
        "return document.querySelector(\"{of_job} [role=alert]\").innerText.includes('is not your account')"
    ))
    .await?;
    bob.sound("another's training").await?;
    ensure!(state()? == "running", "{}", state()?);

    ada.press(&format!("document.querySelector('{JOB} button')")).await?;
    ada.until(&format!("return document.querySelector('{JOB}').innerText.includes('Cancelled.')")).await?;
    ensure!(state()? == "cancelled", "{}", state()?);
    // Everybody who watches the job sees that it was cancelled.
    bob.until("return document.querySelector('[data-testid=jobs] tbody tr').innerText.includes('cancelled')")
        .await?;
    ada.sound("a training that was cancelled").await?;
    bob.quiet("another's training that was cancelled").await
}
