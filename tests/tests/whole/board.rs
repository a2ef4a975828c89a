//! The leaderboard says which kernels it shows, and how Triton compares with the library. Set
//! DIODE_SCREENSHOTS to an absolute path to keep pictures.

use anyhow::{Context as _, ensure};
use diode_tests::{Browser, Server, Theme, Viewport, seeded};
use serde_json::Value;

const BOARD: &str = "[aria-labelledby=board-title]";
const API: &str = "/api/v1/hardware/nvidia-h100/leaderboard?method=median-cold-event";

/// Returns the text of each cell in a column, without the header.
fn column(place: usize) -> String {
    format!(
        "return [...document.querySelectorAll('{BOARD} tbody tr')].map((row) => row.cells[{place}].innerText.trim())"
    )
}

/// Presses a chip of the switch, and waits for the new rows.
async fn press(browser: &Browser, chip: &str, first_config: &str) -> anyhow::Result<()> {
    let press = format!(
        "[...document.querySelectorAll('[aria-label=\"Show the best of\"] button')]
            .find((button) => button.innerText === '{chip}')"
    );
    browser.press(&press).await?;
    let arrived = format!(
        "const cell = document.querySelector('{BOARD} tbody td:nth-child(3)');
        return !!cell && cell.innerText.includes('{first_config}')"
    );
    browser.until(&arrived).await
}

fn label(config: &Value) -> String {
    if config["template"] == "aten" {
        return "cuBLAS".to_owned();
    }
    format!("{}×{}×{}", config["block_m"], config["block_n"], config["block_k"])
}

#[tokio::test(flavor = "multi_thread")]
async fn the_board_shows_triton_first_and_how_often_it_wins() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    let comparison = server.get(&format!("{API}&limit=1"))?["comparison"].clone();
    let (wins, problems) =
        (comparison["wins"].as_u64().context("wins")?, comparison["problems"].as_u64().context("problems")?);
    ensure!(wins > 100 && problems > wins, "{comparison}");
    for (viewport, theme, name) in [
        (Viewport::DESKTOP, Theme::Light, "desktop-light"),
        (Viewport::DESKTOP, Theme::Dark, "desktop-dark"),
        (Viewport::PHONE, Theme::Light, "phone-light"),
        (Viewport::PHONE, Theme::Dark, "phone-dark"),
    ] {
        browser.look(viewport, theme).await?;
        browser.open(&format!("{}/hardware/nvidia-h100", server.url()), &format!("{BOARD} tbody tr")).await?;
        let configs: Vec<String> = browser.script(&column(2)).await?;
        ensure!(configs.len() == 50 && configs.iter().all(|config| config.contains('×')), "{configs:?}");
        let verdict: String =
            browser.script("return document.querySelector('[data-testid=verdict]').innerText").await?;
        let count = |number: u64| match number {
            1000.. => format!("{},{:03}", number / 1000, number % 1000),
            _ => number.to_string(),
        };
        let expected = format!("Triton beats cuBLAS on {} of {} problems", count(wins), count(problems));
        ensure!(verdict.starts_with(&expected), "{verdict}");
        // The picks arrive after the rows. Some picks were never timed.
        browser
            .until(
                "const cells = [...document.querySelectorAll('[data-testid=pick]')];
            const texts = cells.map((cell) => cell.innerText);
            return texts.length === 50 && texts.filter((text) => text !== '–').length > 25 && texts.some((text) => text.includes('%'))",
            )
            .await?;
        ensure!(browser.overflow().await? == 0, "{name}: wider than the window");
        ensure!(browser.complaints().await?.is_empty(), "{name}: {:?}", browser.complaints().await?);
        browser.script::<()>(&format!("document.querySelector('{BOARD}').scrollIntoView()")).await?;
        browser.sound(&format!("board-{name}")).await?;
        browser.picture(&format!("board-{name}")).await?;
        browser.open(server.url(), "a.card-link[href='/hardware/nvidia-h100']").await?;
        let says = "return document.querySelector(\"a.card-link[href='/hardware/nvidia-h100']\").closest('.card').innerText";
        let card: String = browser.script(says).await?;
        for words in [
            format!("{} of {}", count(wins), count(problems)),
            "Triton alone".to_owned(),
            "Triton or cuBLAS".to_owned(),
        ] {
            ensure!(card.contains(&words), "{name}: no `{words}` in {card}");
        }
        browser.sound(&format!("home-{name}")).await?;
        browser.picture(&format!("home-{name}")).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_switch_and_the_order_are_in_the_address() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    browser.open(&format!("{}/hardware/nvidia-h100", server.url()), &format!("{BOARD} tbody tr")).await?;

    let best = server.get(&format!("{API}&limit=1"))?["items"][0]["best"].clone();
    press(&browser, "both", &label(&best)).await?;
    browser.until("return location.search.includes('kernels=everything')").await?;
    press(&browser, "cuBLAS", "cuBLAS").await?;
    browser.until("return location.search.includes('kernels=library')").await?;
    // The library is also first on the board of all kernels. So only a check of all rows shows that the new
    // rows are there.
    browser
        .until(&format!(
            "const cells = [...document.querySelectorAll('{BOARD} tbody td:nth-child(3)')];
            return cells.length === 50 && cells.every((cell) => cell.innerText.trim() === 'cuBLAS')"
        ))
        .await?;
    browser.driver.back().await?;
    browser.until("return location.search.includes('kernels=everything')").await?;

    // Rows sorted by the ratio stand in the server's order, also on the second page.
    let page = format!("{}/hardware/nvidia-h100?sort=ratio&order=asc", server.url());
    browser.open(&page, &format!("{BOARD} tbody tr")).await?;
    let more = format!("document.querySelector('{BOARD} .table-foot button')");
    browser.press(&more).await?;
    browser.until(&format!("return document.querySelectorAll('{BOARD} tbody tr').length === 100")).await?;
    let answer = server.get(&format!("{API}&kernels=triton&sort=ratio&order=asc&limit=100"))?;
    let rows = answer["items"].as_array().context("items")?;
    let expected: Vec<Option<&str>> = rows.iter().map(|row| row["problem_id"].as_str()).collect();
    let shown: Vec<String> = browser
        .script(&format!(
            "return [...document.querySelectorAll('{BOARD} tbody a')]
            .map((a) => a.getAttribute('href').split('/').pop().split('?')[0])"
        ))
        .await?;
    assert_eq!(shown.iter().map(|id| Some(id.as_str())).collect::<Vec<_>>(), expected);
    let ratios: Vec<f64> = rows.iter().filter_map(|row| row["triton_over_library"].as_f64()).collect();
    ensure!(ratios.len() == 100 && ratios.is_sorted() && ratios[0] < 1.0, "{ratios:?}");
    // Where the library is faster, the bar points left from the middle.
    let bars = "return document.querySelectorAll('.diverging .slower').length";
    ensure!(browser.script::<usize>(bars).await? == 100, "100 bars to the left");
    assert_eq!(browser.complaints().await?, Vec::<String>::new());
    browser.sound("board-by-ratio").await?;
    browser.picture("board-by-ratio").await?;
    Ok(())
}

/// Every column is in sight on desktops, also where configs have longer names. On phones the kind stands below the sizes.
#[tokio::test(flavor = "multi_thread")]
async fn no_column_is_cut_off_and_every_row_says_its_kind() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    for filter in ["", "?dtype=float32", "?op=baddbmm", "?kernels=everything"] {
        browser.look(Viewport::DESKTOP, Theme::Light).await?;
        let page = format!("{}/hardware/nvidia-h200{filter}", server.url());
        browser.open(&page, &format!("{BOARD} tbody tr")).await?;
        for width in [1280, 1360, 1440] {
            browser.look(Viewport { width, height: 900 }, Theme::Light).await?;
            let over = "const box = document.querySelector('.board');
                return Math.round(box.querySelector('table').getBoundingClientRect().right - box.getBoundingClientRect().right)";
            let over: i64 = browser.script(over).await?;
            ensure!(over <= 0, "{filter} at {width}: {over} px are cut off");
        }
    }
    // Rows of one size differ by their kinds, so no two rows look alike.
    let page = format!("{}/hardware/nvidia-h200", server.url());
    for (viewport, cell) in
        [(Viewport::DESKTOP, "cells[1]"), (Viewport::PHONE, "cells[0].querySelector('small')")]
    {
        browser.look(viewport, Theme::Light).await?;
        browser.open(&page, &format!("{BOARD} tbody tr")).await?;
        let kinds: Vec<String> = browser
            .script(&format!(
                "return [...document.querySelectorAll('{BOARD} tbody tr')].map((row) => row.{cell}.innerText)"
            ))
            .await?;
        let answer =
            server.get("/api/v1/hardware/nvidia-h200/leaderboard?method=median-cold-event&kernels=triton")?;
        for (kind, row) in kinds.iter().zip(answer["items"].as_array().context("items")?) {
            let problem = &row["problem"];
            let letters = ["a_layout", "b_layout"]
                .map(|layout| if problem[layout] == "row" { "n" } else { "t" })
                .concat();
            let op = problem["op"].as_str().context("an op")?;
            ensure!(kind.starts_with(op) && kind.contains(&format!(" {letters}")), "{kind}: {problem}");
        }
        browser.quiet("kinds").await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_to_a_board_lands_on_it_and_a_wrong_filter_is_answered() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    for viewport in [Viewport::DESKTOP, Viewport::PHONE] {
        browser.look(viewport, Theme::Light).await?;
        let page = format!("{}/hardware/nvidia-h200", server.url());
        browser.open(&format!("{page}?board=coverage"), "[data-testid=map] td").await?;
        browser.until_still().await;
        let top: f64 =
            browser.script("return document.querySelector('#boards').getBoundingClientRect().top").await?;
        ensure!((0.0..200.0).contains(&top), "the board's choice is {top} px from the top");
        // Neither the chart nor a board waits for what is not requested.
        for board in ["", "sizes", "configs"] {
            browser
                .open(&format!("{page}?min_m=x&board={board}"), "[aria-labelledby=board-title] .empty")
                .await?;
            if board.is_empty() {
                browser.wait_for("[aria-label='Chart of the problems'] .empty").await?;
            }
            let settled =
                "return [...document.querySelectorAll('.skeleton')].every((one) => !one.checkVisibility())";
            browser.until(settled).await.with_context(|| format!("`{board}` waits"))?;
        }
        // The server refuses a type that does not exist, and the page says so.
        browser
            .open(&format!("{page}?dtype=no-such"), "[aria-label='Chart of the problems'] .failure")
            .await?;
    }
    Ok(())
}
