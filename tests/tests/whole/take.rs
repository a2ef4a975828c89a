//! Models and datasets: their cards, their figures, and how to download them. Set DIODE_SCREENSHOTS to an absolute
//! path to keep pictures.

use anyhow::{Context as _, ensure};
use diode_tests::{
    Browser, CATCH_FILES, LOOKS, Server, Theme, Viewport, administrator_token, seeded, snapshot_of_h100,
};
use serde_json::Value;

async fn text(browser: &Browser, selector: &str) -> anyhow::Result<String> {
    browser.script(&format!("return document.querySelector(\"{selector}\").innerText")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_judged_problem_by_problem_in_the_browser() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    let models = server.get("/api/v1/models?hardware=nvidia-h100")?;
    let model = &models[0];
    let (id, digest) =
        (model["id"].as_str().context("an id")?, model["digest"].as_str().context("a digest")?);
    let page = format!("{}/models/{id}", server.url());
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&page, "[data-testid=judged] .chart .dots").await?;
        browser.wait_for("[data-testid=lineage] dd").await?;
        let errors = text(&browser, "[data-testid=errors]").await?;
        for part in ["all", "600", "unaligned", "mm bfloat16", "100 GFLOP and more"] {
            ensure!(errors.contains(part), "{look}: `{part}` is not in {errors}");
        }
        // The shipped model was trained on these problems, so its predictions must be close.
        let row: String = browser
            .script("return document.querySelector('[data-testid=errors] tbody tr:nth-child(2) td:nth-child(3)').innerText")
            .await?;
        let factor: f64 = row.trim_end_matches('×').parse()?;
        ensure!((0.9..1.1).contains(&factor), "{look}: predicted ÷ measured is {factor}");
        let worst: Vec<String> = browser
            .script("return [...document.querySelectorAll('[data-testid=worst] a')].map((a) => a.getAttribute('href'))")
            .await?;
        ensure!(worst.len() == 10 && worst.iter().all(|href| href.starts_with("/problems/")), "{worst:?}");
        ensure!(text(&browser, "[data-testid=lineage]").await?.contains("median-cold-event"));
        let citation = text(&browser, "[data-testid=citation]").await?;
        ensure!(citation.contains(&format!("@misc{{diode-{id},")) && citation.contains(digest), "{citation}");
        let without = text(&browser, "[data-testid=without]").await?;
        ensure!(without.contains("the library reaches") && without.contains('%'), "{look}: {without}");
        browser.sound(look).await?;
        browser.picture(&format!("model-{look}")).await?;
        browser.script::<()>("document.querySelector('[data-testid=judged]').scrollIntoView()").await?;
        browser.picture(&format!("model-judged-{look}")).await?;
    }
    // The link to the worst problem must work.
    browser.press("document.querySelector('[data-testid=worst] a')").await?;
    browser.wait_for("[aria-labelledby=configs-title] tbody tr").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_taken_as_it_is() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    let models = server.get("/api/v1/models?hardware=nvidia-h100")?;
    let id = models[0]["id"].as_str().context("an id")?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    browser.open(&format!("{}/models/{id}", server.url()), ".download a").await?;
    browser.script::<()>(CATCH_FILES).await?;
    browser.press("document.querySelector('.download a')").await?;
    let size = models[0]["bytes"].as_u64().context("a size")?;
    let saved = format!("saved, {:.0}\u{a0}kB", size as f64 / 1000.0);
    browser
        .until(&format!("return document.querySelector('.download').innerText.includes('{saved}')"))
        .await?;
    let name = models[0]["file_name"].as_str().context("a name")?;
    let bytes: u64 = browser.script(&format!("return window.blobs_by_name['{name}'].size")).await?;
    assert_eq!(bytes, size);
    assert_eq!(browser.complaints().await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dataset_has_a_card_and_is_taken_in_two_clicks() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser
            .open(&format!("{}/datasets", server.url()), "a.card-link[href='/datasets/nvidia-h200']")
            .await?;
        browser.sound(look).await?;
        browser.picture(&format!("datasets-{look}")).await?;
        browser.press("document.querySelector(\"a.card-link[href='/datasets/nvidia-h100']\")").await?;
        browser.wait_for("[data-testid=sample-rows] tbody tr").await?;
        let rows = text(&browser, "[data-testid=sample-rows]").await?;
        ensure!(rows.contains("time_ns") && rows.contains("triton::bmm"), "{look}: {rows}");
        // The rows are leafed through and sorted, and each column has its range.
        ensure!(rows.contains("1 to 20 of ") && rows.contains("16–"), "{look}: {rows}");
        browser.press("[...document.querySelectorAll('[data-testid=sample-rows] button')].find((one) => one.innerText === 'More rows')").await?;
        browser.until("return document.querySelector('[data-testid=sample-rows]').innerText.includes('21 to 40 of ')").await?;
        let first = text(&browser, "[data-testid=sample-rows] > p").await?;
        browser.press("[...document.querySelectorAll('[data-testid=sample-rows] button')].find((one) => one.innerText === 'Next problem')").await?;
        browser.until(&format!("const said = document.querySelector('[data-testid=sample-rows] > p'); return said !== null && said.innerText !== '{first}'")).await?;
        // A shape leads to its problems.
        browser
            .script::<()>(
                "const field = document.querySelector('#rows-of'); field.value = '1x28672x4096 bf16';
                field.dispatchEvent(new Event('change', { bubbles: true }))",
            )
            .await?;
        browser.until("const said = document.querySelector('[data-testid=sample-rows] > p'); return said !== null && said.innerText.includes('1×28672×4096')").await?;
        let columns = text(&browser, "[data-testid=columns]").await?;
        ensure!(
            columns.contains("num_stages, num_warps") && columns.contains("failure"),
            "{look}: {columns}"
        );
        let citation = text(&browser, "[data-testid=citation]").await?;
        ensure!(
            citation.contains("@misc{diode-nvidia-h100,") && citation.contains("/datasets/nvidia-h100"),
            "{citation}"
        );
        browser.sound(look).await?;
        browser.picture(&format!("dataset-{look}")).await?;
    }
    // A view of the page makes no file, so it knows no size yet.
    let sizes =
        "return [...document.querySelectorAll('[data-testid=size]')].map((one) => one.innerText).join('')";
    ensure!(browser.script::<String>(sizes).await?.is_empty(), "a view made a file");
    browser.script::<()>(CATCH_FILES).await?;
    browser.press("document.querySelector('[data-testid=files] .download a')").await?;
    browser
        .until("return document.querySelector('[data-testid=files]').innerText.includes('saved, ')")
        .await?;
    let saved: u64 = browser.script("return window.blobs_by_name['nvidia-h100.msgpack.zst'].size").await?;
    let there = server.bytes("/api/v1/datasets/nvidia-h100.msgpack.zst")?;
    assert_eq!(saved, there.len() as u64);
    // Now that the file is made, the page says before how large it is, rounded to a digit after the point.
    browser
        .open(&format!("{}/datasets/nvidia-h100", server.url()), "[data-testid=sample-rows] tbody tr")
        .await?;
    browser
        .until("return document.querySelector('[data-testid=files] [data-testid=size]').innerText !== ''")
        .await?;
    browser.script::<()>(CATCH_FILES).await?;
    let size = "const text = document.querySelector('[data-testid=files] [data-testid=size]').innerText;
        const [, size, unit] = text.match(/([\\d.]+)\\s*(kB|MB)/);
        return [size, unit === 'MB' ? 1e6 : 1e3].map(Number)";
    let (size, unit): (f64, f64) = browser.script(size).await?;
    ensure!(
        (size * unit - saved as f64).abs() <= 0.051 * unit,
        "{saved} bytes, the page says {size} of {unit}"
    );
    // The page shows how much of a file has arrived, even if it is compressed on its way.
    browser.devtools("Network.enable", serde_json::json!({})).await?;
    let slowly = serde_json::json!({
        "offline": false, "latency": 0, "downloadThroughput": 400_000, "uploadThroughput": -1,
    });
    browser.devtools("Network.emulateNetworkConditions", slowly).await?;
    for name in ["nvidia-h100.csv", "nvidia-h100.parquet"] {
        let link = format!(
            "[...document.querySelectorAll('[data-testid=files] a')].find((a) => a.innerText === '{name}')"
        );
        browser.press(&link).await?;
        let said = format!("{link}.closest('.download').innerText");
        browser.until(&format!("return /[1-9][\\d.]*\\s.?B of [1-9][\\d.]*\\s.?B/.test({said})")).await?;
        let all = server.bytes(&format!("/api/v1/datasets/{name}"))?.len() as f64;
        let megabytes = format!("return {said}.includes('of {:.1}')", all / 1e6);
        ensure!(browser.script::<bool>(&megabytes).await?, "{name}: {all}");
    }
    // For a missing dataset the page shows the server's message.
    browser.open(&format!("{}/datasets/no-such", server.url()), "main h1").await?;
    browser.until("return document.body.innerText.includes('There is no such dataset')").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_models_are_side_by_side() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    let models = server.get("/api/v1/models")?;
    let ids: Vec<&str> =
        models.as_array().context("models")?.iter().filter_map(|model| model["id"].as_str()).collect();
    let [first, second] = ids.as_slice() else { anyhow::bail!("{ids:?}") };
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser
            .open(&format!("{}/compare?what=models", server.url()), "[data-testid=two-models] tbody tr")
            .await?;
        let table = text(&browser, "[data-testid=two-models]").await?;
        for part in ["of best, first pick", "rank correlation, median", "physics/5"] {
            ensure!(table.contains(part), "{look}: `{part}` is not in {table}");
        }
        for (place, id) in [(2, second), (3, first)] {
            let href = format!(
                "return document.querySelector('[data-testid=two-models] th:nth-child({place}) a').getAttribute('href')"
            );
            assert_eq!(browser.script::<String>(&href).await?, format!("/models/{id}"));
        }
        browser.sound(look).await?;
        browser.picture(&format!("compare-models-{look}")).await?;
    }
    // A model compared with itself is the same in everything. For an unknown model the page says so.
    let same = format!("{}/compare?what=models&a={first}&b={first}", server.url());
    browser.open(&same, "[data-testid=two-models] tbody tr").await?;
    let verdicts: Vec<String> = browser
        .script("return [...document.querySelectorAll('[data-testid=two-models] tbody td:nth-child(4)')].map((cell) => cell.innerText)")
        .await?;
    ensure!(verdicts.iter().all(|one| one.is_empty() || one == "the same"), "{verdicts:?}");
    ensure!(verdicts.iter().any(|one| one == "the same"));
    // The first picks of both models are compared by their measured times.
    browser.wait_for("[data-testid=compared] tbody tr").await?;
    let ratio = text(&browser, "[data-testid=ratio]").await?;
    ensure!(ratio.contains("is as fast as") && ratio.contains("Faster on 0, slower on 0"), "{ratio}");
    browser.sound("two models").await?;
    browser.picture("compare-first-picks").await?;
    browser.open(&format!("{}/compare?what=models&a=nothing", server.url()), ".empty").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_of_the_dashboard_answers_200() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    for path in [
        "/",
        "/hardware/nvidia-h200",
        "/models",
        "/datasets",
        "/datasets/nvidia-h200",
        "/predict",
        "/predict/list",
        "/compare",
        "/contribute",
    ] {
        let answer = ureq::get(format!("{}{path}", server.url())).call().with_context(|| path.to_owned())?;
        assert_eq!(answer.status().as_u16(), 200, "{path}");
    }
    let no_dataset: Result<Value, _> = server.get("/api/v1/datasets/no-such.json");
    ensure!(no_dataset.is_err());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_stand_with_their_files_checksums_and_citation() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    let page = format!("{}/datasets/nvidia-h100", server.url());
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    browser.open(&page, "[data-testid=snapshots] .empty").await?;
    ensure!(text(&browser, "[data-testid=snapshots]").await?.contains("No snapshot yet"));

    let token = administrator_token(folder.path(), &server)?;
    let name = snapshot_of_h100(&server, &token)?;
    let detail = server.get(&format!("/api/v1/snapshots/{name}"))?;
    let files = detail["files"].as_array().context("files")?;
    let card = format!("[data-snapshot='{name}']");
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&page, &format!("{card} summary")).await?;
        browser.script::<()>(&format!("document.querySelector(\"{card} summary\").click()")).await?;
        browser.wait_for("[data-testid=snapshot-files] tbody tr").await?;
        let shown = text(&browser, &card).await?;
        for file in files {
            for part in [file["name"].as_str(), file["sha256"].as_str()] {
                ensure!(shown.contains(part.context("text")?), "{look}: {part:?} is not in {shown}");
            }
        }
        let digest = detail["summary"]["digest"].as_str().context("a digest")?;
        let command = format!(
            "diode datasets pull {name} --format parquet --digest {digest} --server {}",
            server.url()
        );
        let citation = detail["citation"]["bibtex"].as_str().context("a citation")?.trim_end();
        for part in [command.as_str(), citation] {
            ensure!(shown.contains(part), "{look}: {part} is not in {shown}");
        }
        browser.sound(look).await?;
        browser.script::<()>("document.querySelector('[data-testid=snapshots]').scrollIntoView()").await?;
        browser.picture(&format!("snapshots-{look}")).await?;
    }
    browser.script::<()>(CATCH_FILES).await?;
    let press = format!(
        "document.querySelector(\"[data-testid=snapshot-files] a[download='{name}.parquet']\").click()"
    );
    browser.script::<()>(&press).await?;
    browser
        .until("return document.querySelector('[data-testid=snapshot-files]').innerText.includes('saved, ')")
        .await?;
    let saved: u64 = browser.script(&format!("return window.blobs_by_name['{name}.parquet'].size")).await?;
    let there = files.iter().find(|file| file["format"] == "parquet").context("a Parquet file")?;
    assert_eq!(Some(saved), there["bytes"].as_u64());
    Ok(())
}
