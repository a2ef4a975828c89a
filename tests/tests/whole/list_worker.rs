//! A worker of the browser ranks lists. Meanwhile the page still answers, also without a network.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use diode_tests::{Browser, CATCH_FILES, LOOKS, Theme, Viewport, config_label, diode_json, seeded_server};
use serde_json::Value;

const ROWS: &str = "[data-testid=list] tbody tr";
const STATUS: &str = "document.querySelector('[data-testid=list-progress] [role=status]').innerText";

/// A page feels frozen if one task keeps it busy for longer.
const LONGEST_TASK_MS: f64 = 100.0;

/// Returns the worker scripts that the page has fetched.
const WORKERS: &str =
    "return performance.getEntriesByType('resource').map((one) => new URL(one.name).pathname)
    .filter((path) => path.endsWith('/worker.js'))";

/// Counts the workers that the page ends.
const COUNT_ENDS: &str = "window.ended = 0;
    const end = Worker.prototype.terminate;
    Worker.prototype.terminate = function () { window.ended += 1; end.call(this); };";

async fn look_at(viewport: Viewport, theme: Theme) -> anyhow::Result<Browser> {
    let browser = Browser::start().await?;
    browser.look(viewport, theme).await?;
    Ok(browser)
}

fn long_list() -> String {
    let lines: Vec<String> = (1..=20_000_u32).map(|m| format!("{m}x4096x4096")).collect();
    lines.join("\n")
}

/// `count` different shapes.
fn shapes(count: u32) -> Vec<String> {
    let shape = |i| format!("{}x{}x{}", 16 + 8 * i, 512 + 64 * (i % 61), 256 + 128 * (i % 53));
    (0..count).map(shape).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_a_thousand_shapes_does_not_freeze_the_page() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let list = shapes(1000).join("\n");
    // The browser draws frames only between tasks.
    let count = "window.frames_drawn = 0;
        (function next() { window.frames_drawn += 1; requestAnimationFrame(next); })();
        window.long = [];
        new PerformanceObserver((list) => window.long.push(...list.getEntries().map((one) => one.duration)))
            .observe({ type: 'longtask' });";
    for (viewport, theme, look) in LOOKS {
        let browser = look_at(viewport, theme).await?;
        browser.open_list(&server).await?;
        browser.script::<()>(count).await?;
        // A task that the machine interrupts lasts longer than its work. So one quiet run of three is
        // enough.
        let mut longest = f64::INFINITY;
        for _ in 0..3 {
            browser.script::<()>("window.long = []").await?;
            let begun = Instant::now();
            browser.rank_list(&list).await?;
            let started: u64 = browser.script("return window.frames_drawn").await?;
            browser.until("return document.body.innerText.includes('1,000 of 1,000 shapes ranked')").await?;
            let took = begun.elapsed();
            let drawn: u64 = browser.script::<u64>("return window.frames_drawn").await? - started;
            let long: Vec<f64> = browser.script("return window.long").await?;
            println!(
                "{look}: {drawn} frames while 1,000 shapes were ranked in {took:?}; long tasks: {long:?} ms"
            );
            ensure!(drawn >= 10, "{look}: the page was drawn {drawn} times while its list was ranked");
            longest = longest.min(long.into_iter().fold(0.0, f64::max));
            if longest <= LONGEST_TASK_MS {
                break;
            }
        }
        ensure!(longest <= LONGEST_TASK_MS, "{look}: a task of {longest} ms in the quietest of three runs");
        let workers: Vec<String> = browser.script(WORKERS).await?;
        ensure!(workers.len() == 1 && workers[0].starts_with("/worker-"), "{look}: {workers:?}");
        browser.quiet(look).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn other_pages_do_not_fetch_what_ranks_a_list() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = look_at(Viewport::DESKTOP, Theme::Light).await?;
    for (path, ready) in [
        ("/", "main h1"),
        ("/predict?hardware=nvidia-h200&m=512&n=512&k=512", "[data-testid=candidates]"),
        ("/contribute", "[data-testid=terms]"),
    ] {
        browser.open(&format!("{}{path}", server.url()), ready).await?;
        let fetched: Vec<String> =
            browser.script("return performance.getEntriesByType('resource').map((one) => one.name)").await?;
        ensure!(!fetched.is_empty() && !fetched.iter().any(|name| name.contains("/worker-")), "{fetched:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_can_be_stopped() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let list = long_list();
    for (viewport, theme, look) in LOOKS {
        let browser = look_at(viewport, theme).await?;
        browser.open_list(&server).await?;
        browser.script::<()>(COUNT_ENDS).await?;
        browser.rank_list(&list).await?;
        browser.until(&format!("return document.querySelectorAll('{ROWS}').length > 20")).await?;
        browser.press_in_list("Stop").await?;
        browser.until(&format!("return {STATUS}.endsWith('of 20,000 shapes ranked, stopped')")).await?;
        ensure!(browser.script::<u32>("return window.ended").await? == 1, "{look}: the worker goes on");
        let said: String = browser.script(&format!("return {STATUS}")).await?;
        browser.until_still().await;
        ensure!(
            browser.script::<String>(&format!("return {STATUS}")).await? == said,
            "{look}: the list goes on"
        );
        // The rows so far can be saved. Another list starts from the beginning.
        let enabled = "return [...document.querySelectorAll('[data-testid=list-progress] button')]
            .some((one) => one.innerText === 'CSV' && !one.disabled)";
        ensure!(browser.script::<bool>(enabled).await?, "{look}");
        browser.rank_list("64x64x64\n128x64x64").await?;
        browser.until(&format!("return {STATUS} === '2 of 2 shapes ranked'")).await?;
        ensure!(browser.script::<u32>("return window.ended").await? == 1, "{look}: an idle worker was ended");

        // A new list ends the worker that still ranks another list.
        browser.rank_list(&list).await?;
        browser.until(&format!("return document.querySelectorAll('{ROWS}').length > 20")).await?;
        browser.rank_list("64x64x64").await?;
        browser.until(&format!("return {STATUS} === '1 of 1 shape ranked'")).await?;
        ensure!(browser.script::<u32>("return window.ended").await? == 2, "{look}: the worker goes on");
        ensure!(
            browser.script::<usize>(&format!("return document.querySelectorAll('{ROWS}').length")).await?
                == 1
        );

        // Leaving the page ends the worker, too.
        browser.rank_list(&list).await?;
        browser.press("document.querySelector('.crumbs a')").await?;
        browser.wait_for("[data-testid=candidates]").await?;
        ensure!(browser.script::<u32>("return window.ended").await? == 3, "{look}: the worker goes on");
        browser.quiet(look).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_cannot_be_ranked_says_what_to_do() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    // Two hindrances: the script of the worker is missing, and the browser forbids workers.
    let hinder = "if (location.search === '?gone') {
            const gone = (real) => { window.real_worker = real; };
            let address = '/worker-000000000000/worker.js';
            Object.defineProperty(window, 'worker', { get: () => address, set: gone });
            window.find_worker = () => { address = window.real_worker; };
        }
        if (location.search === '?forbidden') {
            window.Worker = function () { throw new DOMException('no workers', 'SecurityError'); };
        }";
    for (viewport, theme, look) in LOOKS {
        let browser = look_at(viewport, theme).await?;
        browser.before_scripts(hinder).await?;
        for why in ["forbidden", "gone"] {
            browser
                .open(&format!("{}/predict/list?{why}", server.url()), "[data-testid=cannot-rank]")
                .await?;
            browser.rank_list("64x64x64\n128x64x64").await?;
            browser.until(&format!("return {STATUS} === '0 of 2 shapes ranked, stopped'")).await?;
            let said: String = browser
                .script("return document.querySelector('[data-testid=cannot-rank]').innerText")
                .await?;
            for part in [
                "could not start the program that ranks lists",
                "Press Predict again",
                "diode predict --list",
            ] {
                ensure!(said.contains(part), "{look}: `{part}` is not in {said}");
            }
            browser.sound(&format!("list-{why}-{look}")).await?;
            browser.picture(&format!("list-{why}-{look}")).await?;
        }
        browser.script::<()>("window.find_worker()").await?;
        browser.rank_list("64x64x64").await?;
        browser.until(&format!("return {STATUS} === '1 of 1 shape ranked'")).await?;
        browser.until("return !document.querySelector('[data-testid=cannot-rank]')").await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_ranked_without_a_network() -> anyhow::Result<()> {
    for (viewport, theme, look) in LOOKS {
        let (_folder, server) = seeded_server()?;
        let browser = look_at(viewport, theme).await?;
        browser.open_list(&server).await?;
        // The page fetches the worker's files before there is a list to rank.
        let is_kept = "const file = (name) => window.worker.replace('worker.js', name);
            const kept = (name) => fetch(file(name), { cache: 'only-if-cached', mode: 'same-origin' }).then(({ ok }) => ok);
            return Promise.all(['worker.js', 'program.js', 'program_bg.wasm'].map(kept))
                .then((all) => all.every(Boolean), () => false)";
        browser.until(is_kept).await?;
        let has_model = "return performance.getEntriesByType('resource')
            .some((one) => one.name.endsWith('/download') && one.responseEnd > 0)";
        browser.until(has_model).await?;
        drop(server);
        ensure!(browser.script::<bool>("return fetch('/healthz').then(() => false, () => true)").await?);
        browser.rank_list(&long_list()).await?;
        browser.until(&format!("return document.querySelectorAll('{ROWS}').length > 20")).await?;
        // The next list gets a new worker.
        browser.press_in_list("Stop").await?;
        browser.rank_list("64x64x64\n128x64x64").await?;
        browser.until(&format!("return {STATUS} === '2 of 2 shapes ranked'")).await?;
        browser.quiet(look).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_and_the_command_line_say_the_same() -> anyhow::Result<()> {
    let (folder, server) = seeded_server()?;
    let list = shapes(200);
    let told = told_by_command(folder.path(), &list)?;
    let browser = look_at(Viewport::DESKTOP, Theme::Light).await?;
    browser.open_list(&server).await?;
    browser.script::<()>(CATCH_FILES).await?;
    browser.rank_list(&list.join("\n")).await?;
    browser.until(&format!("return {STATUS} === '200 of 200 shapes ranked'")).await?;
    browser.press_in_list("CSV").await?;
    browser.until("return Object.keys(window.files).length === 1").await?;
    let csv: String = browser.script("return Object.values(window.files)[0]").await?;
    let mut rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = rows.next().context("a head")?;
    let column = |name: &str| head.iter().position(|own| *own == name).with_context(|| name.to_owned());
    let (config, time, pick) = (column("config")?, column("predicted_us")?, column("pick")?);
    let library = column("library_us")?;
    let rows: Vec<_> = rows.collect();
    ensure!(rows.len() == told.len() && rows.len() == list.len(), "{} and {} rows", rows.len(), told.len());
    for ((row, told), shape) in rows.iter().zip(&told).zip(&list) {
        let there = &told["candidates"][0];
        // The row has the best Triton config, and the command line's first candidate may be the library.
        let picks_library = row[pick] == "library";
        let here: f64 = row[if picks_library { library } else { time }].parse()?;
        let named = if picks_library { "library" } else { row[config] };
        let us = there["predicted_us"].as_f64().context("a time")?;
        // The CSV file has three digits after the point, so rounding may change a time by 0.0005.
        let apart = ((here - us).abs() - 0.000_5).max(0.0) / us;
        ensure!(
            named == config_label(there) && apart < 1e-5,
            "{shape}: {} {here} µs here, {} {us} µs on the command line",
            named,
            config_label(there)
        );
    }
    Ok(())
}

/// The command line's prediction for each shape.
fn told_by_command(folder: &std::path::Path, list: &[String]) -> anyhow::Result<Vec<Value>> {
    std::fs::write(folder.join("sizes.txt"), list.join("\n"))?;
    let ask = ["predict", "--list", "sizes.txt", "--hardware", "nvidia-h200", "--top", "1", "--json"];
    let told = diode_json(folder, &ask)?;
    Ok(told.as_array().context("a list")?.clone())
}
