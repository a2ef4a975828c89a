//! The other boards of a hardware: configs, sizes and coverage.

use anyhow::{Context as _, ensure};
use diode_tests::{Browser, Server, Theme, Viewport, seeded};

#[tokio::test(flavor = "multi_thread")]
async fn the_map_of_sizes_is_the_servers_and_follows_k() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    browser
        .open(&format!("{}/hardware/nvidia-h100?board=sizes", server.url()), "[data-testid=size-map] td")
        .await?;
    let sizes = server.get("/api/v1/hardware/nvidia-h100/sizes")?;
    const SHOWN: &str = "return [...document.querySelectorAll('[data-testid=size-map] td')]
        .filter((cell) => cell.innerText.trim() !== '').length";
    let cells = sizes["cells"].as_array().context("cells")?.len();
    ensure!(browser.script::<usize>(SHOWN).await? == cells, "a cell for each of {cells}");
    // On a desktop no column is cut off, in either map.
    for mode in ["", "&cells=tiles"] {
        let page = format!("{}/hardware/nvidia-h200?board=sizes{mode}", server.url());
        browser.open(&page, "[data-testid=size-map] td").await?;
        let fits = "const box = document.querySelector('[data-testid=size-map]').parentElement;
            return box.scrollWidth - box.clientWidth";
        ensure!(browser.script::<i64>(fits).await? <= 0, "the map is cut off: {mode}");
    }
    let page = format!("{}/hardware/nvidia-h100?board=sizes", server.url());
    browser.open(&page, "[data-testid=size-map] td").await?;
    // Another K changes the filter in the address to the range of K that the chip stands for.
    let press = "[...document.querySelectorAll('[aria-label=\"K about\"] button')]
        .find((button) => button.innerText === '4,096')";
    browser.press(press).await?;
    browser
        .until("return location.search.includes('min_k=2897') && location.search.includes('max_k=5792')")
        .await?;
    let deep = server.get("/api/v1/hardware/nvidia-h100/sizes?min_k=2897&max_k=5792")?;
    let cells = deep["cells"].as_array().context("cells")?.len();
    browser.until(&format!("{} === {cells}", SHOWN)).await?;
    let problems = |map: &serde_json::Value| -> u64 {
        let cells = map["cells"].as_array().into_iter().flatten();
        cells.filter_map(|cell| cell["problems"].as_u64()).sum()
    };
    let depth = deep["depths"].as_array().context("depths")?.iter().find(|one| one["k"]["least"] == 2897);
    ensure!(depth.context("4096 was measured")?["problems"].as_u64() == Some(problems(&deep)), "{deep}");
    ensure!(problems(&deep) < problems(&sizes));
    // A cell leads to its problems, with the same range of K.
    browser.press("document.querySelector('[data-testid=size-map] td a')").await?;
    browser.wait_for(".board tbody tr").await?;
    let first = deep["cells"][0]["problems"].as_u64().context("problems of the first cell")?;
    browser.until(&format!("return document.querySelectorAll('.board tbody tr').length === {first}")).await?;
    browser
        .until("return location.search.includes('min_k=2897') && location.search.includes('min_m=')")
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configs_are_the_servers_and_follow_the_filters() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    let filter = "op=mm&dtype=bfloat16&b_layout=row";
    let page = format!("{}/hardware/nvidia-h100?board=configs&{filter}", server.url());
    browser.open(&page, "[data-testid=cover]").await?;
    let cover = server.get(&format!("/api/v1/hardware/nvidia-h100/configs?{filter}"))?;
    let steps = cover["steps"].as_array().context("steps")?;
    ensure!(cover["problems"] == 494 && steps.len() > 4, "{cover}");
    let enough = steps.iter().position(|step| step["share"].as_f64() >= Some(0.95));
    let enough = enough.map_or(steps.len(), |place| place + 1);
    let verdict: String =
        browser.script("return document.querySelector('[data-testid=cover]').innerText").await?;
    ensure!(
        verdict.starts_with(&format!("{enough} config")) && verdict.contains("494 mm problems"),
        "{verdict}"
    );
    let rows = "return document.querySelectorAll('[aria-labelledby=board-title] tbody tr').length";
    ensure!(browser.script::<usize>(rows).await? == steps.len(), "a row for each config");
    // A press on another length changes the address, and that many configs can be copied.
    let press = "[...document.querySelectorAll('[aria-label=\"Copy the first\"] button')]
        .find((button) => button.innerText === '4')";
    browser.press(press).await?;
    browser
        .until(
            "const code = document.querySelector('[aria-labelledby=board-title] pre').innerText;
            return location.search.includes('take=4') && code.split('\\n').length === 6 && code.startsWith('configs = [')",
        )
        .await?;
    // Where nothing matches, the page says so in words and shows no list.
    let page = format!("{}/hardware/nvidia-h100?board=configs&min_m=2000000000", server.url());
    browser.open(&page, "[aria-labelledby=board-title] .empty").await?;
    assert_eq!(browser.complaints().await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_map_of_coverage_is_that_of_the_row_that_is_pressed() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    let page = format!("{}/hardware/nvidia-h200?board=coverage", server.url());
    browser.open(&page, "[data-testid=map] td").await?;
    let cells = "[...document.querySelectorAll('[data-testid=map] td')].map((cell) => cell.innerText)";
    let sum = |side: usize| {
        format!("{cells}.reduce((sum, text) => sum + Number(text.split(/[\\/\\s]/)[{side}]), 0)")
    };
    for (op, dtype, scaling) in
        [("mm", "bfloat16", "none"), ("bmm", "float16", "none"), ("fused_moe", "float8_e4m3fn", "block")]
    {
        let part = format!("op={op}&dtype={dtype}&scaling={scaling}");
        let map = server.get(&format!("/api/v1/hardware/nvidia-h200/coverage/map?{part}"))?;
        let by = if scaling == "none" { String::new() } else { format!(" by {scaling}") };
        let press = format!("document.querySelector('[aria-label=\"Map of {op} {dtype}{by}\"]')");
        browser.press(&press).await?;
        let (covered, kinds) = (&map["covered"], &map["kinds"]);
        browser.until(&format!("return {} === {covered} && {} === {kinds}", sum(0), sum(1))).await?;
        browser.until(&format!("return location.search.includes('op={op}')")).await?;
    }
    assert_eq!(browser.complaints().await?, Vec::<String>::new());
    Ok(())
}
