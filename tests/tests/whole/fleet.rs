//! The page that lists a server's agents, and from which people start them. Set DIODE_SCREENSHOTS to an absolute path
//! to keep pictures.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use diode_tests::{Agent, Browser, LOOKS, Server, diode, until};
use serde_json::Value;

const ROWS: &str = "[...document.querySelectorAll('[data-testid=fleet] tbody tr')]
    .map((row) => [...row.querySelectorAll('td')].map((cell) => cell.innerText.trim()))";

#[tokio::test(flavor = "multi_thread")]
async fn the_fleet_shows_its_agents_and_what_they_have_done() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::start_with(folder.path(), &["--accept-simulated", "--no-worker"])?;
    let browser = Browser::start().await?;
    let page = format!("{}/contribute", server.url());
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&page, "[data-testid=fleet] .empty").await?;
        browser.sound(look).await?;
    }

    let agent =
        ["agent", "--server", server.url(), "--backend", "simulated", "--seed", "1", "--home", "home"];
    diode(folder.path(), &[&agent[..], &["--once", "--lease", "2s", "--name", "rack-7"]].concat())?;
    let agents = server.get("/api/v1/agents")?;
    let known = agents.as_array().and_then(|agents| agents.first()).context("an agent")?;
    let detail = server.get(&format!("/api/v1/agents/{}", known["id"].as_str().context("an id")?))?;
    let lease = &detail["leases"][0];
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&page, "[data-testid=fleet] tbody tr").await?;
        let rows: Vec<Vec<String>> = browser.script(&format!("return {ROWS}")).await?;
        let [row] = &rows[..] else { anyhow::bail!("{look}: {rows:?}") };
        let name = format!("{} (simulated)", known["name"].as_str().context("a name")?);
        ensure!(name.contains("rack-7") && row[0] == name, "{look}: {row:?} beside {known}");
        ensure!(row[1] == "simulated-nvidia-h200" && row[2] == "no work taken", "{look}: {row:?}");
        ensure!(count(&row[3]) == known["measured"].as_u64() && count(&row[3]) > Some(0), "{look}: {row:?}");
        browser.sound(look).await?;

        browser.press("document.querySelector('[data-testid=fleet] tbody button')").await?;
        browser.wait_for("[data-testid=doings] tbody tr").await?;
        let cells: Vec<String> = browser
            .script(
                "return [...document.querySelectorAll('[data-testid=doings] tbody td')].map((cell) => cell.innerText.trim())",
            )
            .await?;
        ensure!(Some(cells[0].as_str()) == lease["id"].as_str() && cells[1] == "done", "{look}: {cells:?}");
        let of = |field: &str| lease[field].as_u64().unwrap_or_default().to_string();
        ensure!(cells[2] == format!("{} of {}", of("measured"), of("problems")), "{look}: {cells:?} {lease}");
        browser.sound(look).await?;
        browser.script::<()>("document.querySelector('[data-testid=fleet]').scrollIntoView()").await?;
        browser.picture(&format!("fleet-{look}")).await?;
        // The same button closes the list again.
        browser.press("document.querySelector('[data-testid=fleet] tbody button')").await?;
        browser.until("return !document.querySelector('[data-testid=doings]')").await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_comes_appears_without_a_reload() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::start_with(folder.path(), &["--accept-simulated", "--no-worker"])?;
    let browser = Browser::start().await?;
    browser.open(&format!("{}/contribute", server.url()), "[data-testid=fleet] .empty").await?;
    let agent =
        ["agent", "--server", server.url(), "--backend", "simulated", "--seed", "2", "--home", "home"];
    diode(folder.path(), &[&agent[..], &["--once", "--lease", "1s"]].concat())?;
    browser.until(&format!("return {ROWS}.length === 1")).await?;
    let agents: Value = server.get("/api/v1/agents")?;
    let measured = agents[0]["measured"].as_u64();
    browser
        .until(&format!("return Number({ROWS}[0][3].replace(/\\D/g, '')) === {}", measured.unwrap_or(0)))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overview_follows_agents_and_uploads_while_it_is_open() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::start_with(folder.path(), &["--accept-simulated", "--no-worker"])?;
    let browser = Browser::start().await?;
    browser.open(&format!("{}/", server.url()), "[data-testid=newest] .empty").await?;
    let heading = "return document.querySelector('#working-title').textContent";
    anyhow::ensure!(browser.script::<String>(heading).await? == "No agent is at work");
    let agent =
        ["agent", "--server", server.url(), "--backend", "simulated", "--seed", "3", "--home", "home"];
    diode(folder.path(), &[&agent[..], &["--once", "--lease", "1s"]].concat())?;
    let uploads = server.get("/api/v1/activity")?["uploads"].as_array().map_or(0, Vec::len);
    browser
        .until(&format!(
            "return document.querySelectorAll('[data-testid=newest] tbody tr').length === {uploads}
                && document.querySelector('#working-title').textContent === '1 agent is at work'"
        ))
        .await
}

fn count(text: &str) -> Option<u64> {
    text.replace(',', "").parse().ok()
}

/// A shell runs the line that the page shows. Its node has only the program and no visible GPU, so the agent
/// ends at once, until it is told to measure the processor.
#[tokio::test(flavor = "multi_thread")]
async fn the_line_on_the_page_starts_an_agent_whose_results_arrive() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::start_with(folder.path(), &["--no-worker"])?;
    let browser = Browser::start().await?;
    browser.open(&format!("{}/contribute", server.url()), "[data-testid=agent] code").await?;
    let line: String =
        browser.script("return document.querySelector('[data-testid=agent] code').innerText").await?;
    let start = Instant::now();
    let mut idle = Agent::by_shell(folder.path(), "node", &line)?;
    ensure!(idle.child.wait()?.code() == Some(2), "without a GPU it measures nothing by itself");
    let mut agent = Agent::by_shell(folder.path(), "node", &format!("{line} --backend cpu"))?;
    until(
        "the first result arrives",
        || Ok(server.get("/api/v1/agents")?[0]["measured"].as_u64() > Some(0)),
    )?;
    println!("the first result arrived after {:.0} s", start.elapsed().as_secs_f64());
    ensure!(agent.child.try_wait()?.is_none(), "it goes on");
    let slug = server.get("/api/v1/agents")?[0]["hardware"].as_str().context("hardware")?.to_owned();
    let board = server.get(&format!("/api/v1/hardware/{slug}/leaderboard"))?;
    ensure!(board["total"].as_u64() > Some(0), "{board}");
    ensure!(agent.terminate()? == Some(0), "SIGTERM ends it");
    Ok(())
}
