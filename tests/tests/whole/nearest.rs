//! Predict starts with measured shapes. Wherever a page asks about a shape, it shows the nearest measured
//! problems. Set DIODE_SCREENSHOTS to an absolute path to keep pictures.

use std::path::Path;

use anyhow::{Context as _, ensure};
use diode_tests::{Browser, Server, Theme, Viewport, diode_command, seeded};
use serde_json::Value;

const FIRST: &str = "[data-testid=nearest] tbody tr:first-child";
const IS_MEASURED: &str = "const row = document.querySelector('[data-testid=nearest] tbody tr:first-child');
    return !!row && row.innerText.includes('this one')";

const SAYS_THAT_TIMES_DIFFER: &str = "return document.querySelector('[data-testid=answer]').innerText.includes('may differ from those on that page')";

#[tokio::test(flavor = "multi_thread")]
async fn predict_starts_from_measured_shapes() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    browser.open(&format!("{}/predict?hardware=nvidia-h100", server.url()), "[data-shape]").await?;
    browser.until("return document.querySelectorAll('[data-shape]').length === 5").await?;
    browser.until(IS_MEASURED).await.context("the default shape was measured")?;
    browser.until(SAYS_THAT_TIMES_DIFFER).await.context("nothing says why its page predicts other times")?;
    browser.sound("predict-default").await?;
    browser.picture("predict-default").await?;
    for place in 0..5 {
        let chip = format!("document.querySelectorAll('[data-shape]')[{place}]");
        let dims: String = browser.script(&format!("return {chip}.dataset.shape")).await?;
        browser.press(&chip).await?;
        let shown = format!(
            "const row = document.querySelector('{FIRST}');
            return !!row && row.innerText.includes('{dims}') && row.innerText.includes('this one')"
        );
        browser.until(&shown).await.with_context(|| dims.clone())?;
        let path: String = browser
            .script(&format!("return document.querySelector('{FIRST} a').getAttribute('href')"))
            .await?;
        server.get(&format!("/api/v1{path}")).with_context(|| format!("{dims} was measured"))?;
    }
    // A shape in the address stays as it is, measured or not.
    let page =
        format!("{}/predict?hardware=nvidia-h100&op=mm&m=4099&n=4096&k=4096&dtype=bfloat16", server.url());
    browser.open(&page, FIRST).await?;
    browser.until("return document.querySelectorAll('[data-shape]').length === 5").await?;
    let m: String = browser.script("return document.querySelector('input[name=m]').value").await?;
    ensure!(m == "4099", "{m}");
    ensure!(!browser.script::<bool>(IS_MEASURED).await?, "nobody measured M of 4099");
    ensure!(!browser.script::<bool>(SAYS_THAT_TIMES_DIFFER).await?, "it has no page");
    for (viewport, theme, name) in
        [(Viewport::PHONE, Theme::Light, "light"), (Viewport::PHONE, Theme::Dark, "dark")]
    {
        browser.look(viewport, theme).await?;
        ensure!(browser.overflow().await? == 0, "wider than the window");
        browser.sound(&format!("predict-nearest-phone-{name}")).await?;
        browser.picture(&format!("predict-nearest-phone-{name}")).await?;
    }
    assert_eq!(browser.complaints().await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shape_is_found_on_its_hardware_or_what_is_nearest() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    let board =
        server.get("/api/v1/hardware/nvidia-h100/leaderboard?op=mm&dtype=bfloat16&b_layout=row&limit=50")?;
    let rows = board["items"].as_array().context("items")?;
    // The search looks for row-major problems only.
    let row = rows.iter().find(|row| row["problem"]["a_layout"] == "row").context("a row-major problem")?;
    let problem = &row["problem"];
    let shape = format!("{}x{}x{}", problem["m"], problem["n"], problem["k"]);
    on_the_command_line(&server, folder.path(), problem, &shape)?;
    browser.open(&format!("{}/hardware/nvidia-h100?dtype=bfloat16", server.url()), "#shape-search").await?;
    let search = |text: &str| {
        format!(
            "
        const field = document.querySelector('#shape-search');
        field.value = '{text}';
        field.dispatchEvent(new Event('change', {{ bubbles: true }}))"
        )
    };
    browser.script::<()>(&search(&shape)).await?;
    browser.until(IS_MEASURED).await?;
    browser.until(&format!("return location.search.includes('shape={shape}')")).await?;
    browser.sound("hardware-search").await?;
    browser.picture("hardware-search").await?;
    browser.script::<()>(&search("4099x4097x4093")).await?;
    browser.until("const row = document.querySelector('[data-testid=nearest] tbody tr:first-child'); return !!row && !row.innerText.includes('this one')").await?;
    browser.script::<()>(&search(&format!("{shape} bf16"))).await?;
    browser.until(IS_MEASURED).await.context("a shape with its type, as other pages take it")?;
    browser.script::<()>(&search("4096 by 4096")).await?;
    browser.until("return document.querySelector('#shape-search-fault').innerText.includes('M×N×K')").await?;
    assert_eq!(browser.complaints().await?, Vec::<String>::new());
    Ok(())
}

/// `diode predict` shows what the server knows of a shape, or of its neighbours.
fn on_the_command_line(server: &Server, folder: &Path, problem: &Value, shape: &str) -> anyhow::Result<()> {
    let ask = |shape: &str, hardware: &str, format: &str| {
        let asked = ["predict", shape, "--hardware", hardware, "--server", server.url(), "--format", format];
        diode_command(folder, &asked)?.output().context("cannot start diode")
    };
    let told: Value = serde_json::from_slice(&ask(shape, "nvidia-h100", "json")?.stdout)?;
    let measured = told["measured"].as_array().context("measured problems")?;
    ensure!(measured[0]["problem"] == *problem && measured[0]["distance"] == 0.0, "{told}");
    ensure!(measured.iter().all(|one| one["time_us"].as_f64().is_some_and(|us| us > 0.0)), "{told}");
    let near: Value = serde_json::from_slice(&ask("4099x4097x4093", "nvidia-h100", "json")?.stdout)?;
    ensure!(near["measured"][0]["distance"].as_f64().is_some_and(|distance| distance > 0.0), "{near}");
    let text = String::from_utf8(ask(shape, "nvidia-h100", "table")?.stdout)?;
    ensure!(text.contains("Measured nearby:") && text.contains(" 0.00 "), "{text}");
    let unknown = ask(shape, "nvidia-a100", "table")?;
    let said = String::from_utf8(unknown.stderr)?;
    ensure!(
        unknown.status.code() == Some(1) && said.contains("error: --server: the server refused it"),
        "{said}"
    );
    Ok(())
}

/// A name such as "Llama 8B, MLP up" is only given to the sizes that people know by it, and a shape that was measured in
/// another layout is not called unmeasured.
#[tokio::test(flavor = "multi_thread")]
async fn names_belong_to_their_sizes_and_other_layouts_are_told() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    browser.open(&format!("{}/predict?hardware=nvidia-h200", server.url()), "[data-shape]").await?;
    browser.until("return document.querySelectorAll('[data-shape]').length === 5").await?;
    let chips: Vec<String> = browser
        .script("return [...document.querySelectorAll('[data-shape]')].map((chip) => chip.innerText)")
        .await?;
    let names = [
        ("square", "4096×4096×4096"),
        ("Llama 8B, MLP up", "2048×14336×4096"),
        ("Llama 8B, MLP down", "2048×4096×14336"),
        ("decode, 16 tokens", "16×4096×4096"),
        ("small", "256×512×256"),
    ];
    for (chip, (name, dims)) in chips.iter().zip(names) {
        ensure!(chip.starts_with(name) == chip.ends_with(dims), "{chip} is called {name}");
    }
    // A size that was measured as mm with B in columns, and not in rows.
    let board = server
        .get("/api/v1/hardware/nvidia-h200/leaderboard?op=mm&dtype=bfloat16&b_layout=column&limit=200")?;
    let rows = board["items"].as_array().context("items")?;
    let path = |problem: &Value| {
        let size = |key: &str| problem[key].to_string();
        format!(
            "op=mm&m={}&n={}&k={}&dtype=bfloat16&a_layout=row&b_layout=row",
            size("m"),
            size("n"),
            size("k")
        )
    };
    let is_only_column = |row: &&Value| {
        let near = server
            .get(&format!("/api/v1/hardware/nvidia-h200/nearest?b=1&{}&limit=5", path(&row["problem"])));
        let near = near.ok().and_then(|near| near.as_array().cloned()).unwrap_or_default();
        near.iter().all(|one| one["distance"] != 0.0)
            && near.iter().any(|one| one["problem"] == row["problem"])
    };
    let row = rows.iter().find(is_only_column).context("a size that was measured with B in columns only")?;
    let page = format!("{}/predict?hardware=nvidia-h200&{}", server.url(), path(&row["problem"]));
    browser.open(&page, FIRST).await?;
    browser.until("return document.querySelector('[data-testid=measure]').innerText.includes('were measured here as mm bf16 ')").await?;
    browser.quiet("other layouts").await
}
