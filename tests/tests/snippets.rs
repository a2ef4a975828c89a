//! What a problem's page has to copy.

use anyhow::{Context as _, ensure};
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
        // What is copied answers.
        let path =
            curl.strip_prefix(&format!("curl '{}", server.url())).and_then(|rest| rest.strip_suffix('\''));
        let told = server.get(path.context("an address of this server")?)?;
        ensure!(told["problem_id"] == id && told["configs"] == detail["configs"], "{curl}");
        browser.sound(look).await?;
        browser.picture(&format!("snippets-{look}")).await?;
    }
    Ok(())
}
