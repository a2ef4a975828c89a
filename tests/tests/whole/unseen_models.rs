//! What a problem's page says about a released model, with and without the networks of its cross-validation. Set
//! DIODE_SCREENSHOTS to an absolute path to keep pictures.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use diode_core::{Problem, hash_of_size, is_kept};
use diode_model::UnseenModels;
use diode_tests::{Browser, LOOKS, Server, seed};
use tempfile::TempDir;

const CHART: &str = "[aria-label='Measured and predicted'] .chart .dots";

/// Returns the text below the page's chart, and the predicted time of the best config.
const SHOWN: &str = "return [document.querySelector(\"[aria-label='Measured and predicted']\").textContent,
    Number(document.querySelector('[aria-labelledby=configs-title] [data-predicted-us]').dataset.predictedUs)]";

/// How the server answered each request for a network.
const ANSWERS: &str = "return performance.getEntriesByType('resource')
    .filter((one) => one.name.includes('/unseen/')).map((one) => one.responseStatus)";

/// A release with the model of the H100 and a part of its measurements, and a database with both.
struct Release {
    folder: TempDir,
    own: PathBuf,
}

impl Release {
    fn new() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let own = folder.path().join("released/matmul/nvidia-h100");
        fs::create_dir_all(own.join("data"))?;
        let data = "data/h100-addmm-fp16-vector.msgpack.zst";
        fs::copy(shipped("nvidia-h100").join(data), own.join(data))?;
        fs::copy(model_of("nvidia-h100"), own.join("m.safetensors"))?;
        let release = Self { folder, own };
        release.seed()?;
        Ok(release)
    }

    fn seed(&self) -> anyhow::Result<()> {
        seed(&self.folder.path().join("released"), self.folder.path())
    }

    /// Adds a network as if it had been trained without the problem. It is the other GPU's model, so it predicts
    /// other times.
    fn add_network_without(&self, problem: &Problem) -> anyhow::Result<()> {
        let mut unseen = UnseenModels::default();
        unseen.add(fs::read(model_of("nvidia-h200"))?, [hash_of_size(problem)])?;
        fs::write(self.own.join("m.unseen"), unseen.to_bytes()?)?;
        self.seed()
    }
}

fn shipped(hardware: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../trained_models/matmul").join(hardware)
}

fn model_of(hardware: &str) -> PathBuf {
    shipped(hardware).join(format!("matmul-{hardware}.safetensors"))
}

/// Two problems of different sizes on which the model was trained.
fn learnt(server: &Server) -> anyhow::Result<[Problem; 2]> {
    let board = server.get("/api/v1/hardware/nvidia-h100/leaderboard?sort=flops")?;
    let rows = board["items"].as_array().context("rows")?;
    let problems: Vec<Problem> =
        rows.iter().map(|row| serde_json::from_value(row["problem"].clone())).collect::<Result<_, _>>()?;
    let mut learnt = problems.into_iter().filter(|problem| !is_kept(problem));
    let one = learnt.next().context("a problem")?;
    let other = learnt.find(|other| hash_of_size(other) != hash_of_size(&one)).context("another size")?;
    Ok([one, other])
}

/// Opens the page of a problem. Returns the text below its chart, the predicted time of the best config, and the
/// statuses of requests for a network.
async fn shown(
    browser: &Browser,
    server: &Server,
    problem: &Problem,
) -> anyhow::Result<(String, f64, Vec<u16>)> {
    let page = format!("{}/problems/{}?hardware=nvidia-h100", server.url(), problem.id());
    browser.open(&page, CHART).await?;
    browser.wait_for("[aria-labelledby=configs-title] [data-predicted-us]").await?;
    let (said, time) = browser.script(SHOWN).await?;
    Ok((said, time, browser.script(ANSWERS).await?))
}

#[tokio::test(flavor = "multi_thread")]
async fn without_networks_a_problem_may_be_in_the_training_data() -> anyhow::Result<()> {
    let release = Release::new()?;
    let server = Server::start(release.folder.path())?;
    let [problem, _] = learnt(&server)?;
    let browser = Browser::start().await?;
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        let (said, _, answers) = shown(&browser, &server, &problem).await?;
        ensure!(said.contains("Predicted by model"), "{look}: {said}");
        ensure!(said.contains("This problem may be in its training data."), "{look}: {said}");
        assert!(answers.is_empty(), "{look}: {answers:?}");
        browser.sound(look).await?;
        browser.picture(&format!("without-networks-{look}")).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn with_networks_one_predicts_that_was_trained_without_the_problem() -> anyhow::Result<()> {
    let release = Release::new()?;
    let server = Server::start(release.folder.path())?;
    let [problem, other] = learnt(&server)?;
    let browser = Browser::start().await?;
    let (_, by_model, _) = shown(&browser, &server, &problem).await?;
    server.stop()?;
    release.add_network_without(&problem)?;

    let server = Server::start(release.folder.path())?;
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        let (said, time, answers) = shown(&browser, &server, &problem).await?;
        ensure!(
            said.contains("Predicted by a network that was trained without this problem"),
            "{look}: {said}"
        );
        ensure!(!said.contains("may be in its training data"), "{look}: {said}");
        assert_eq!(answers, [200], "{look}");
        ensure!((time / by_model - 1.0).abs() > 0.01, "{look}: {time} µs, {by_model} µs by the model");
        browser.sound(look).await?;
        browser.picture(&format!("with-networks-{look}")).await?;
    }
    // The networks' file has only the first problem, so the page says that the model has not learnt this one.
    let (said, ..) = shown(&browser, &server, &other).await?;
    ensure!(said.contains("It has not learnt this problem."), "{said}");
    browser.quiet("another size").await
}
