//! Epilogues in Predict, in a list and on the command line. Set DIODE_SCREENSHOTS to an absolute path to
//! keep pictures.

use anyhow::{Context as _, ensure};
use diode_tests::{Browser, CATCH_FILES, LOOKS, Server, Theme, Viewport, config_label, diode_json, seeded};
use serde_json::Value;

const CANDIDATES: &str = "[data-testid=candidates] [data-config]";
const VERDICT: &str = "return document.querySelector('[data-testid=verdict]')?.innerText ?? ''";

/// Returns for each row the config, its predicted time alone, and what the epilogue adds to it.
const ROWS: &str = "return [...document.querySelectorAll('[data-testid=candidates] [data-config]')]
    .map((row) => [row.dataset.config, Number(row.dataset.predictedUs), Number(row.dataset.epilogueUs)])";

fn choose(epilogue: &str) -> String {
    format!(
        "const list = document.querySelector('#select-epilogue');
         list.value = '{epilogue}';
         list.dispatchEvent(new Event('change', {{ bubbles: true }}));"
    )
}

/// The command line's answer, in the form of [`ROWS`].
fn candidates(prediction: &Value) -> anyhow::Result<Vec<(String, f64, f64)>> {
    let list = prediction["candidates"].as_array().context("candidates")?;
    list.iter()
        .map(|c| {
            let us = |key: &str| c[key].as_f64().context("a time");
            Ok((config_label(c), us("alone_us")?, us("epilogue_us")?))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_epilogue_decides_between_a_tile_and_the_library() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    let page = |m: u64, n: u64, k: u64, more: &str| {
        format!("{}/predict?m={m}&n={n}&k={k}&dtype=bfloat16&hardware=nvidia-h200{more}", server.url())
    };
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&page(8192, 4096, 256, ""), CANDIDATES).await?;
        ensure!(browser.script::<String>(VERDICT).await?.is_empty(), "{look}: nothing follows at first");
        // Requests for measured problems come separately, so they are not counted.
        let requests = "return performance.getEntriesByType('resource')
            .filter((entry) => !/\\/(nearest|wanted)\\?/.test(entry.name)).length";
        browser
            .until("return document.querySelectorAll('[data-testid=nearest] tbody tr').length > 0")
            .await?;
        // The models of other GPUs come last.
        browser.until_still().await;
        let before: u64 = browser.script(requests).await?;
        browser.script::<()>(&choose("relu")).await?;
        browser.until("return location.search.includes('epilogue=relu')").await?;
        let said: String = browser.script(VERDICT).await?;
        ensure!(
            said.starts_with("Better: a tile with the ReLU fused. It is predicted to take "),
            "{look}: {said}"
        );
        let rows: Vec<(String, f64, f64)> = browser.script(ROWS).await?;
        ensure!(rows.len() == 10 && rows[0].0 != "library", "{look}: {rows:?}");
        ensure!(browser.script::<u64>(requests).await? == before, "{look}: nothing is asked of the server");
        let command: String =
            browser.script("return document.querySelector('[data-testid=command] code').innerText").await?;
        ensure!(command.ends_with("--epilogue relu"), "{look}: {command}");
        browser.sound(look).await?;
        browser.picture(&format!("predict-epilogue-{look}")).await?;

        // Beside a long multiplication, the kernel that follows takes little time.
        browser.open(&page(8192, 8192, 8192, "&epilogue=gelu"), CANDIDATES).await?;
        let said: String = browser.script(VERDICT).await?;
        ensure!(said.starts_with("Better: the library and a kernel for the GELU. "), "{look}: {said}");
        ensure!(browser.script::<Vec<(String, f64, f64)>>(ROWS).await?[0].0 == "library", "{look}");
        ensure!(
            browser
                .script::<bool>("return !document.querySelector('[data-testid=within-5-percent]')")
                .await?,
            "{look}: how sure that is was not measured"
        );
        browser.sound(look).await?;
        browser.picture(&format!("predict-epilogue-library-{look}")).await?;

        browser.open(&page(64, 64, 64, "&epilogue=selu"), "[role=alert]:not(.hidden)").await?;
        browser
            .until("return document.querySelector('#problem-error').innerText.includes('got `selu`')")
            .await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_browser_and_the_command_line_say_the_same_of_epilogues() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    let shapes = [[8192, 4096, 256], [2048, 512, 256], [1, 4096, 4096], [4096, 1024, 4096], [333, 777, 2049]];
    let epilogues = ["relu", "gelu", "gelu-tanh", "silu", "silu-gate", "residual", "float32"];
    let mut compared = 0;
    for hardware in ["nvidia-h100", "nvidia-h200"] {
        for [m, n, k] in shapes {
            let page = format!("{}/predict?m={m}&n={n}&k={k}&hardware={hardware}", server.url());
            browser.open(&page, CANDIDATES).await?;
            for epilogue in epilogues {
                browser.script::<()>(&choose(epilogue)).await?;
                browser.wait_for("[data-testid=candidates] [data-epilogue-us]").await?;
                let command: String = browser
                    .script("return document.querySelector('[data-testid=command] code').innerText")
                    .await?;
                ensure!(command.ends_with(&format!("--epilogue {epilogue}")), "{command}");
                let here: Vec<(String, f64, f64)> = browser.script(ROWS).await?;
                let (size, flag) = (format!("{m}x{n}x{k}"), ["--epilogue", epilogue]);
                let ask = ["predict", &size, "--hardware", hardware, "--json"];
                let told = diode_json(folder.path(), &[&ask[..], &flag[..]].concat())?;
                for (ours, theirs) in here.iter().zip(candidates(&told)?) {
                    let differ = |a: f64, b: f64| (a - b).abs() > 1e-5 * b.abs();
                    ensure!(
                        ours.0 == theirs.0 && !differ(ours.1, theirs.1) && !differ(ours.2, theirs.2),
                        "{size} {epilogue} on {hardware}: {ours:?} here, {theirs:?} on the command line"
                    );
                }
                let fuse = told["epilogue"]["fuse"].as_bool().context("a verdict")?;
                let said: String = browser.script(VERDICT).await?;
                ensure!(said.starts_with("Better: a tile") == fuse, "{size} {epilogue}: {said}");
                compared += 1;
            }
        }
    }
    println!("{compared} answers are the same in the browser and on the command line");
    assert_eq!(browser.complaints().await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_has_an_epilogue() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&format!("{}/predict/list", server.url()), "#shapes").await?;
        browser.script::<()>(CATCH_FILES).await?;
        browser.until("return !document.body.innerText.includes('The model is on its way')").await?;
        let type_in = "const field = document.querySelector('#shapes');
            field.value = '8192x4096x256\\n8192x8192x8192\\n64x64';
            field.dispatchEvent(new Event('input', { bubbles: true }));";
        browser.script::<()>(type_in).await?;
        browser.script::<()>(&choose("relu")).await?;
        browser.press("document.querySelector('form.card .button.primary')").await?;
        browser
            .until("return document.body.innerText.includes('2 of 3 shapes ranked, 1 without a prediction')")
            .await?;
        browser.sound(look).await?;
        browser.picture(&format!("list-epilogue-{look}")).await?;
        browser
            .press(
                "[...document.querySelectorAll('[data-testid=list-progress] button')].find((one) => one.innerText === 'CSV')",
            )
            .await?;
        browser.until("return Object.keys(window.files).length === 1").await?;
        let files: Value = browser.script("return window.files").await?;
        let csv = files["nvidia-h200-predicted.csv"].as_str().unwrap_or_default();
        let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
        let column = |name: &str| lines[0].iter().position(|one| *one == name).context("a column");
        let (config, epilogue, pick) = (column("config")?, column("epilogue")?, column("pick")?);
        let added = [column("epilogue_us")?, column("library_epilogue_us")?];
        ensure!(lines[1][pick] == "triton" && lines[2][pick] == "library", "{csv}");
        // Where the library is better, the row still has Triton's config, and how far behind it is.
        ensure!(lines[2][config] != "library", "{csv}");
        let ratio: f64 = lines[2][column("triton_over_library")?].parse()?;
        ensure!(ratio < 1.1, "{csv}");
        ensure!(lines[1][epilogue] == "relu" && lines[1].len() == lines[0].len(), "{csv}");
        let added: Vec<f64> = added.iter().filter_map(|place| lines[1][*place].parse().ok()).collect();
        ensure!(added.len() == 2 && added[0] < added[1], "{look}: the tile does it for less: {csv}");
        // The link to Predict keeps the epilogue.
        browser.press("document.querySelector('[data-testid=list] tbody a')").await?;
        browser.until("return location.search.includes('epilogue=relu')").await?;
        browser.wait_for("[data-testid=candidates] [data-epilogue-us]").await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_along_a_size_follows_the_epilogue() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    let page = format!("{}/predict?m=8192&n=4096&k=256&dtype=bfloat16&hardware=nvidia-h200", server.url());
    // After the library kernel, an epilogue needs a kernel of its own.
    let library =
        "return document.querySelector('[data-testid=along] tr.is-best td:last-child')?.textContent ?? ''";
    browser.open(&page, "[data-testid=further] summary").await?;
    browser.press("document.querySelector('[data-testid=further] summary')").await?;
    browser.wait_for("[data-testid=along] tr.is-best").await?;
    let alone: String = browser.script(library).await?;
    browser.script::<()>(&choose("relu")).await?;
    let is_other = format!("const now = (() => {{ {library} }})(); return now !== '' && now !== '{alone}'");
    browser.until(&is_other).await?;
    browser.until("return [...document.querySelectorAll('.hint:not(.hidden)')].some((one) => one.innerText.includes('of the models below'))").await
}
