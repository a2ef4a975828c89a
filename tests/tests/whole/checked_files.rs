//! Contributing in a real browser: files are checked before they are sent.

use std::path::Path;

use anyhow::{Context as _, ensure};
use diode_core::hardware::find;
use diode_core::{
    Config, ConfigDictionary, ConfigIndex, DType, Dataset, Method, Op, Problem, ProblemFields, Provenance,
    Solution, Tile, TimeColumn,
};
use diode_formats::{Format, encode};
use diode_tests::{Browser, LOOKS, Server};
use thirtyfour::By;

/// How many files the page has sent.
const SENT: &str = "return performance.getEntriesByType('resource')
    .filter((one) => one.initiatorType === 'xmlhttprequest').length";

/// The button that sends a file.
const SEND: &str = "[data-testid=ready] .button.primary";

const REFUSALS: &str = "return [...document.querySelectorAll('.failure')]
    .map((one) => [one.querySelector('strong').innerText, one.querySelector('p').innerText])";

/// A columnar file with times of one product of 4096³ on an H200. The least possible time is 128 µs.
fn file(micros: &[u64]) -> anyhow::Result<Vec<u8>> {
    let configs: ConfigDictionary = [Config::Mm(Tile::new(128, 128, 64, 3, 8))].into_iter().collect();
    let solution = Solution {
        problem: Problem::new(ProblemFields::plain(Op::Mm, 1, 4096, 4096, 4096, DType::BFloat16))?,
        method: Method::Unspecified,
        configs: vec![ConfigIndex(0); micros.len()],
        times: TimeColumn::from_nanos(micros.iter().map(|micros| micros * 1000).collect())?,
        minimum_ns: None,
        spread_ns: None,
        repeats: None,
        failures: Vec::new(),
    };
    let dataset = Dataset {
        hardware: find("nvidia-h200").context("the H200")?,
        provenance: Provenance::default(),
        configs,
        solutions: vec![solution],
    };
    Ok(encode(Format::Columnar, &[dataset])?)
}

/// The message with which the server refuses a file.
fn refusal(server: &Server, bytes: &[u8]) -> anyhow::Result<String> {
    let request = ureq::post(format!("{}/api/v1/uploads", server.url()));
    let request = request.config().http_status_as_error(false).build();
    let mut response = request.header("content-type", "application/octet-stream").send(bytes)?;
    ensure!(response.status().is_client_error(), "{}", response.status());
    let answer: serde_json::Value = response.body_mut().read_json()?;
    Ok(answer["message"].as_str().context("a message")?.to_owned())
}

async fn choose(browser: &Browser, folder: &Path, names: &[&str]) -> anyhow::Result<()> {
    let paths: Vec<String> =
        names.iter().map(|name| folder.join(name).to_string_lossy().into_owned()).collect();
    browser.driver.find(By::Css("input[type=file]")).await?.send_keys(paths.join("\n")).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_would_refuse_is_not_sent() -> anyhow::Result<()> {
    let good = file(&[200, 300, 1])?;
    let mut damaged = good.clone();
    *damaged.last_mut().context("a byte")? ^= 1;
    let files = [
        ("broken-off.msgpack.zst", good[..good.len() / 2].to_vec()),
        ("table.csv", b"M,N,K\n16,16,16\n".to_vec()),
        ("impossible.msgpack.zst", file(&[1, 2])?),
        // The checksum of the frame is wrong. Only the server can say so.
        ("damaged.msgpack.zst", damaged),
    ];
    let names = files.each_ref().map(|(name, _)| *name);
    for (viewport, theme, look) in LOOKS {
        let folder = tempfile::tempdir()?;
        let folder = folder.path();
        let server = Server::start_with(folder, &["--no-worker"])?;
        for (name, bytes) in &files {
            std::fs::write(folder.join(name), bytes)?;
        }
        std::fs::write(folder.join("good.msgpack.zst"), &good)?;
        let browser = Browser::start().await?;
        browser.look(viewport, theme).await?;
        browser.open(&format!("{}/contribute", server.url()), "[data-testid=terms]").await?;

        choose(&browser, folder, &names).await?;
        // The page cannot tell what is wrong with the damaged one, so it can be sent; the others cannot.
        browser.until("return document.querySelectorAll('.failure').length === 3").await?;
        browser.wait_for(SEND).await?;
        ensure!(
            browser.script::<usize>(SENT).await? == 0,
            "{look}: nothing is sent before the reader says so"
        );
        browser.press(&format!("document.querySelector('{SEND}')")).await?;
        browser.until("return document.querySelectorAll('.failure').length === 4").await?;
        let refused: Vec<(String, String)> = browser.script(REFUSALS).await?;
        // The newest stands first.
        for ((name, bytes), (heading, why)) in files.iter().rev().zip(&refused) {
            let what = if *name == "damaged.msgpack.zst" { "Not stored" } else { "Not sent" };
            ensure!(heading.starts_with(&format!("{what}: {name}, ")), "{look}: {refused:?}");
            // The page makes a sentence of it.
            let said =
                refusal(&server, bytes)?.replace('`', "").replace("convert IT", &format!("convert {name}"));
            ensure!(why.to_lowercase().contains(&said.to_lowercase()), "{look}: {said}: {refused:?}");
            ensure!(why.ends_with('.') && !why.contains('`'), "{look}: {refused:?}");
        }
        ensure!(browser.script::<usize>(SENT).await? == 1, "{look}: only the damaged one is sent");
        ensure!(server.get("/api/v1/uploads")?.as_array().is_some_and(Vec::is_empty), "{look}");

        // Each can be taken out of the list.
        for left in (0..4).rev() {
            browser.press("document.querySelector('.failure button')").await?;
            browser.until(&format!("return document.querySelectorAll('.failure').length === {left}")).await?;
        }

        choose(&browser, folder, &["good.msgpack.zst"]).await?;
        browser.wait_for(SEND).await?;
        browser
            .until("return document.body.innerText.includes('Nobody has sent timings of NVIDIA H200')")
            .await?;
        browser.looked_at(&format!("checked-file-{look}")).await?;
        let described: String =
            browser.script("return document.querySelector('[data-testid=ready]').innerText").await?;
        browser.press(&format!("document.querySelector('{SEND}')")).await?;
        browser.wait_for("[data-testid=receipt]").await?;
        let receipt: String =
            browser.script("return document.querySelector('[data-testid=receipt]').innerText").await?;
        for text in [described, receipt] {
            for part in
                ["NVIDIA H200", "1 problem, 2 timings", "1 timing set apart (below-floor): time of mm"]
            {
                ensure!(text.contains(part), "{look}: `{part}` is not in {text}");
            }
        }
        ensure!(browser.script::<usize>(SENT).await? == 2, "{look}");
        browser.looked_at(&format!("checked-files-{look}")).await?;
        // The upload has a page.
        browser.press("document.querySelector('[data-testid=receipt] a[href^=\"/uploads/\"]')").await?;
        browser.wait_for("main a[href$='/download']").await?;
        let page: String = browser.script("return document.querySelector('main').innerText").await?;
        for part in ["NVIDIA H200", "1 problem, 2 timings", "1 timing set apart", "It counts"] {
            ensure!(page.contains(part), "{look}: `{part}` is not in {page}");
        }
        browser.looked_at(&format!("upload-{look}")).await?;
    }
    Ok(())
}
