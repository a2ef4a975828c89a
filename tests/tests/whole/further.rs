//! The further parts of Predict: float32 rounded to TF32, the time along one size, other models, and charts as
//! files. Set DIODE_SCREENSHOTS to an absolute path to keep pictures.

use anyhow::{Context as _, ensure};
use diode_tests::{Browser, CATCH_FILES, LOOKS, Server, Theme, Viewport, seeded};
use serde_json::Value;

const CANDIDATES: &str = "[data-testid=candidates] [data-config]";
const ALONG_ROWS: &str = "[data-testid=along] tbody tr";

fn chip(group: &str, text: &str) -> String {
    format!(
        "[...document.querySelectorAll(\"[aria-label='{group}'] button\")].find((one) => one.innerText === '{text}')"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_size_varies_beside_other_models() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    let page =
        format!("{}/predict?op=mm&b=1&m=100&n=4096&k=4096&dtype=bfloat16&hardware=nvidia-h200", server.url());
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&page, CANDIDATES).await?;
        let pieces = "return performance.getEntriesByType('resource').filter((one) => one.name.endsWith('.wasm')).length";
        let before: u64 = browser.script(pieces).await?;
        browser.press("document.querySelector('[data-testid=further] > summary')").await?;
        browser.wait_for("[data-testid=along] .chart .marks").await?;
        ensure!(browser.script::<u64>(pieces).await? > before, "{look}: it comes with the second piece");
        // The sizes are the powers of two, the middles between them, and the size of the problem itself.
        browser.until(&format!("return document.querySelectorAll('{ALONG_ROWS}').length === 33")).await?;
        let own: String = browser
            .script(&format!("return document.querySelector('{ALONG_ROWS}.is-best').textContent"))
            .await?;
        // The headline may name the library, so the best Triton config is read from the table.
        let (config, time): (String, String) = browser
            .script(
                "const row = [...document.querySelectorAll('[data-testid=candidates] [data-config]')]
                    .find((row) => row.dataset.config !== 'library');
                 return [...row.querySelectorAll('td')].map((cell) => cell.innerText.trim()).filter((_, i) => i === 0 || i === 2)",
            )
            .await?;
        ensure!(
            own.starts_with("100") && own.contains(&config) && own.contains(&time),
            "{look}: {own}; {config} {time}"
        );
        // One row for the model of this hardware, and one for the model of the other GPU.
        let models = "[data-testid=side-by-side-models] tbody tr";
        browser.until(&format!("return [...document.querySelectorAll('{models}')].filter((row) => /[µm]s/.test(row.innerText)).length === 2")).await?;
        let models: Vec<String> = browser
            .script(&format!("return [...document.querySelectorAll('{models}')].map((row) => row.innerText)"))
            .await?;
        ensure!(models[0].starts_with("nvidia-h200") && models[0].contains(&time), "{look}: {models:?}");
        ensure!(models[1].starts_with("nvidia-h100") && !models[1].contains(&time), "{look}: {models:?}");
        browser.sound(look).await?;
        browser.script::<()>("document.querySelector('[data-testid=further]').scrollIntoView()").await?;
        browser.picture(&format!("further-{look}")).await?;
    }
    // Another size varies, and the chart shows times instead of rates.
    browser.press(&chip("Size that varies", "K")).await?;
    browser
        .until(&format!(
            "return document.querySelector('{ALONG_ROWS}.is-best')?.textContent.startsWith('4,096') === true"
        ))
        .await?;
    browser.press(&chip("Shows", "time")).await?;
    browser
        .until("return [...document.querySelectorAll('[data-testid=along] .axis-title')].some((one) => one.textContent === 'Predicted time')")
        .await?;
    // The chart follows the form, and the keys go from dot to dot.
    browser
        .script::<()>(
            "const field = document.querySelector('input[name=k]');
             field.value = '5000';
             field.dispatchEvent(new Event('input', { bubbles: true }));",
        )
        .await?;
    browser
        .until(&format!(
            "return document.querySelector('{ALONG_ROWS}.is-best')?.textContent.startsWith('5,000') === true"
        ))
        .await?;
    // The new chart is drawn a frame after its table. Until then it takes no keys.
    browser
        .until(
            "document.querySelector('[data-testid=along] .chart').dispatchEvent(new KeyboardEvent('keydown', { key: 'Home', bubbles: true }));
             return document.querySelector('[data-testid=along] .tooltip')?.innerText.startsWith('K = 1\\n') === true",
        )
        .await?;
    // The chart still follows after it was closed and opened again.
    let summary = "document.querySelector('[data-testid=further] > summary')";
    browser.press(summary).await?;
    browser.until("return !document.querySelector('[data-testid=along] .chart')").await?;
    browser.press(summary).await?;
    browser.wait_for("[data-testid=along] .chart .marks").await?;
    browser.press(&chip("Size that varies", "N")).await?;
    browser
        .until(&format!(
            "return document.querySelector('{ALONG_ROWS}.is-best')?.textContent.startsWith('4,096') === true"
        ))
        .await?;
    assert_eq!(browser.complaints().await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn float32_may_be_rounded() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    let page = |more: &str| {
        format!("{}/predict?hardware=nvidia-h200&m=4096&n=4096&k=4096&dtype={more}", server.url())
    };
    let best = "return Number(document.querySelector('[data-predicted-us]').dataset.predictedUs)";
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&page("float32"), CANDIDATES).await?;
        let full: f64 = browser.script(best).await?;
        // On phones the form's choices are folded.
        browser
            .script::<()>("document.querySelectorAll('main details').forEach((one) => { one.open = true })")
            .await?;
        browser.press(&chip("Float32 is computed", "as TF32")).await?;
        // An H200 reaches 495 TFLOP/s in TF32 and 67 TFLOP/s in full float32.
        let faster = best.replace("return ", &format!("return {} > ", full / 3.0));
        browser.until(&faster).await?;
        let rounded: f64 = browser.script(best).await?;
        browser.until("return location.search.includes('tf32=1')").await?;
        // The model knows how fast the library is if it rounds, so the library is one of the candidates.
        ensure!(browser.script::<bool>("return !!document.querySelector('[data-config=library]')").await?);
        browser.sound(look).await?;
        browser.picture(&format!("predict-tf32-{look}")).await?;
        // The address sets the choice, too. Other types do not have this choice.
        browser.open(&page("float32&tf32=1"), CANDIDATES).await?;
        let again: f64 = browser.script(best).await?;
        ensure!((again / rounded - 1.0).abs() < 1e-9, "{again} µs by the address");
        browser.open(&page("bfloat16"), CANDIDATES).await?;
        ensure!(
            browser
                .script::<bool>("return !document.querySelector(\"[aria-label='Float32 is computed']\")")
                .await?
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn charts_are_saved_as_they_look() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    for (theme, paper) in [(Theme::Light, "rgb(255, 255, 255)"), (Theme::Dark, "rgb(21, 25, 29)")] {
        browser.look(Viewport::DESKTOP, theme).await?;
        for (path, chart, name) in [
            (
                "/hardware/nvidia-h100",
                "[aria-label='Chart of the problems']",
                "nvidia-h100-share-of-the-roofline",
            ),
            ("/compare?what=hardware", ".columns-box", "compare-comparison"),
        ] {
            browser.open(&format!("{}{path}", server.url()), &format!("{chart} svg :is(path, rect)")).await?;
            browser.until(&is_drawn(chart)).await?;
            browser.script::<()>(CATCH_FILES).await?;
            for kind in ["SVG", "PNG"] {
                let press =
                    format!("document.querySelector(\"{chart} [aria-label='Save the chart as {kind}']\")");
                browser.press(&press).await?;
            }
            browser.until("return Object.keys(window.files).length === 2").await?;
            let files: Value = browser.script("return window.files").await?;
            let names: Vec<&String> = files.as_object().context("files")?.keys().collect();
            let svg = files[format!("{name}.svg")].as_str().with_context(|| format!("{names:?}"))?;
            ensure!(
                svg.starts_with("<svg") && svg.contains("xmlns=\"http://www.w3.org/2000/svg\""),
                "{svg:.300}"
            );
            ensure!(!svg.contains("class=") && !svg.contains("var(--"), "it needs no style sheet");
            let background =
                if chart == ".columns-box" { "fill=\"rgb(" } else { &format!("fill=\"{paper}\"") };
            ensure!(svg.contains(background), "{svg:.300}");
            let drawn: usize = browser
                .script(&format!(
                    "return document.querySelector(\"{chart} svg\").querySelectorAll('path, rect').length"
                ))
                .await?;
            // The saved file contains the legend, too.
            let legend: Vec<String> = browser
                .script(&format!(
                    "return [...document.querySelectorAll(\"{chart} .legend li\")].map((one) => one.innerText.trim())"
                ))
                .await?;
            ensure!(legend.is_empty() == (chart == ".columns-box"), "{name}: {legend:?}");
            for words in &legend {
                let words = words.replace('&', "&amp;");
                ensure!(svg.contains(&format!(">{words}</text>")), "{name}: `{words}` is not in the legend");
            }
            // The saved file has one more rectangle: its background.
            let saved = svg.matches("<path").count() + svg.matches("<rect").count();
            ensure!(saved == drawn + legend.len() + 1, "{name}: {drawn} are drawn, {saved} are saved");
            // The PNG must be a picture that a browser can show, twice as large as on the page.
            let png: u64 = browser.script(&format!("return window.blobs_by_name['{name}.png'].size")).await?;
            ensure!(png > 2000, "a picture of {png} bytes");
            let wide = format!(
                "return (async () => {{
                    const picture = await createImageBitmap(window.blobs_by_name['{name}.png']);
                    const place = document.querySelector(\"{chart} svg\").getBoundingClientRect();
                    const legend = document.querySelector(\"{chart} .legends, {chart} .legend\")?.getBoundingClientRect().height;
                    const height = place.height + (legend ? legend + 8 : 0);
                    return Math.abs(picture.width - 2 * place.width) < 2 && Math.abs(picture.height - 2 * height) < 2;
                }})()"
            );
            ensure!(browser.script::<bool>(&wide).await?, "{name}.png has another size");
            assert_eq!(browser.complaints().await?, Vec::<String>::new());
            // For the kept pictures: shows the saved file instead of the page.
            let show = format!(
                "const image = new Image();
                 image.src = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(window.files['{name}.svg']);
                 document.body.replaceChildren(image);
                 return image.decode().then(() => true)"
            );
            ensure!(browser.script::<bool>(&show).await?, "{name}.svg is no picture");
            browser
                .picture(&format!("saved-{name}-{}", if paper.contains("255") { "light" } else { "dark" }))
                .await?;
        }
    }
    Ok(())
}

/// Whether a chart has not changed for a second. What it shows may arrive in several steps.
fn is_drawn(chart: &str) -> String {
    format!(
        "const drawn = document.querySelectorAll(\"{chart} svg :is(path, rect)\").length;
         if (window.drawn !== drawn) {{
             window.drawn = drawn;
             window.drawnAt = performance.now();
         }}
         return performance.now() - window.drawnAt > 1000;"
    )
}
