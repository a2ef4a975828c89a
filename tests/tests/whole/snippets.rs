//! The snippets that a problem's page offers to copy.

use anyhow::{Context as _, ensure};
use diode_api::LibraryVersion;
use diode_tests::{Browser, LOOKS, Server, seeded};
use serde_json::Value;

#[tokio::test(flavor = "multi_thread")]
async fn a_problem_has_its_configs_and_its_answer_to_copy() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    let board =
        server.get("/api/v1/hardware/nvidia-h200/leaderboard?op=mm&limit=1&method=median-cold-event")?;
    let id = board["items"][0]["problem_id"].as_str().context("an id")?;
    let page = format!("{}/problems/{id}?hardware=nvidia-h200&method=median-cold-event", server.url());
    let detail =
        server.get(&format!("/api/v1/problems/{id}?hardware=nvidia-h200&method=median-cold-event"))?;
    let tile = &detail["triton"]["config"];
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&page, "[data-testid=snippets] summary").await?;
        browser.wait_for("[aria-labelledby=configs-title] tbody tr").await?;
        let closed: u64 =
            browser.script("return document.querySelectorAll('[data-testid=snippets] pre').length").await?;
        ensure!(closed == 0, "{look}: {closed} snippets are made before they are asked for");
        browser.press("document.querySelector('[data-testid=snippets] summary')").await?;
        browser.wait_for("[data-testid=snippets] pre").await?;
        let texts: Vec<String> = browser
            .script("return [...document.querySelectorAll('[data-testid=snippets] pre')].map((pre) => pre.textContent)")
            .await?;
        let [config, table, compile, command, curl] = texts.as_slice() else {
            anyhow::bail!("{look}: {texts:?}");
        };
        ensure!(config.starts_with("triton.Config({\"BLOCK_M\": "), "{config} for {tile}");
        let table: Value = serde_json::from_str(table)?;
        let entries = table.as_object().context("a table")?;
        ensure!(entries.len() == 1, "{table}");
        let configs = entries.values().next().and_then(Value::as_array).context("configs")?;
        ensure!(configs.len() == 5, "{table}");
        let block = format!("\"BLOCK_M\": {}, ", configs[0]["BLOCK_M"]);
        ensure!(config.contains(&block), "the first of {table} is not {config}");
        ensure!(compile.contains("lookup_table.table") && compile.contains("torch.compile("), "{compile}");
        ensure!(command.starts_with("diode predict --hardware nvidia-h200 --op mm --m "), "{command}");
        // The copied command must get an answer.
        let path =
            curl.strip_prefix(&format!("curl '{}", server.url())).and_then(|rest| rest.strip_suffix('\''));
        let told = server.get(path.context("an address of this server")?)?;
        ensure!(told["problem_id"] == id && told["configs"] == detail["configs"], "{curl}");
        browser.sound(look).await?;
        browser.picture(&format!("snippets-{look}")).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_problem_says_who_measured_it_and_how_far_apart_its_repeats_lay() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    let board =
        server.get("/api/v1/hardware/nvidia-h100/leaderboard?op=mm&limit=1&method=median-cold-event")?;
    let id = board["items"][0]["problem_id"].as_str().context("an id")?;
    let view = "hardware=nvidia-h100&method=median-cold-event";
    let told = server.get(&format!("/api/v1/problems/{id}/sources?{view}"))?;
    let source = &told["sources"][0];
    let detail = server.get(&format!("/api/v1/problems/{id}?{view}"))?;
    ensure!(detail["configs"][0]["spread"].as_f64().is_some_and(|spread| spread > 0.0), "{detail}");
    let repeats = detail["configs"][0]["repeats"].as_u64().context("repeats")?;
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser
            .open(&format!("{}/problems/{id}?{view}", server.url()), "[data-testid=sources] tbody tr")
            .await?;
        let rows: Vec<Vec<String>> = browser
            .script(
                "return [...document.querySelectorAll('[data-testid=sources] tbody tr')]
                    .map((row) => [...row.cells].map((cell) => cell.textContent))",
            )
            .await?;
        ensure!(Some(rows.len()) == told["sources"].as_array().map(Vec::len), "{look}: {rows:?}");
        // The page writes a library's version as people do: 13.1.0, which cuBLAS states as 130100.
        let library: LibraryVersion = source["library"].as_str().context("a library")?.parse()?;
        let text_of = |field: &str| source[field].as_str().map(str::to_owned).context("a text");
        let told = [
            (0, text_of("upload")?),
            (3, text_of("driver")?),
            (4, library.in_words()),
            (5, text_of("tool")?),
        ];
        for (cell, text) in told {
            ensure!(rows[0][cell].trim() == text, "{look}: {} is not {text}", rows[0][cell]);
        }
        browser.wait_for("[aria-labelledby=configs-title] tbody tr").await?;
        let first: Vec<String> = browser
            .script(
                "return [...document.querySelector('[aria-labelledby=configs-title] tbody tr').cells]
                    .map((cell) => cell.textContent)",
            )
            .await?;
        let place = first.len() - 3;
        ensure!(first[place].ends_with('%') && first[place + 1] == repeats.to_string(), "{look}: {first:?}");
        browser.script::<()>("document.querySelector('[data-testid=sources]').scrollIntoView()").await?;
        browser.sound(look).await?;
        browser.picture(&format!("sources-{look}")).await?;
    }
    // An upload links to its comparison with others.
    browser.press("document.querySelector('[data-testid=sources] a')").await?;
    browser.until("return location.pathname === '/compare' && location.search.includes('what=uploads')").await
}
