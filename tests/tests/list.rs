//! A list of shapes, predicted in the browser and taken home.

use diode_tests::{Browser, Server, Theme, Viewport, seeded};
use serde_json::Value;

const ROWS: &str = "[data-testid=list] tbody tr";

/// Keeps the files that the page would give the reader.
const CATCH_FILES: &str = "
    window.files = {};
    const click = HTMLAnchorElement.prototype.click;
    const make = URL.createObjectURL;
    const blobs = new Map();
    URL.createObjectURL = (blob) => { const url = make.call(URL, blob); blobs.set(url, blob); return url; };
    HTMLAnchorElement.prototype.click = function () {
        if (this.download) blobs.get(this.href).text().then((text) => { window.files[this.download] = text; });
        else click.call(this);
    };";

fn start() -> anyhow::Result<(tempfile::TempDir, Server)> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    Ok((folder, server))
}

async fn predict(browser: &Browser, list: &str) -> anyhow::Result<()> {
    let list = serde_json::to_string(list)?;
    let set = format!(
        "const field = document.querySelector('#shapes');
         field.value = {list};
         field.dispatchEvent(new Event('input', {{ bubbles: true }}));"
    );
    browser.script::<()>(&set).await?;
    browser.until("return !document.querySelector('form.card .button.primary').disabled").await?;
    browser.script::<()>("document.querySelector('form.card .button.primary').click()").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_becomes_a_table_and_two_files() -> anyhow::Result<()> {
    let (_folder, server) = start()?;
    let browser = Browser::start().await?;
    let list = "# decode\n1x28672x4096\n16, 4096, 14336 fp16\n2048x14336x4096 addmm column vector\n\
                8x512x512x64\n1000000000x4096x4096\n64x64\n";
    for (viewport, theme, name) in
        [(Viewport::DESKTOP, Theme::Light, "desktop"), (Viewport::PHONE, Theme::Dark, "phone")]
    {
        browser.look(viewport, theme).await?;
        browser.open(&format!("{}/predict/list", server.url()), "#shapes").await?;
        browser.script::<()>(CATCH_FILES).await?;
        let requests = "return performance.getEntriesByType('resource').length";
        browser.until("return !document.body.innerText.includes('The model is on its way')").await?;
        predict(&browser, list).await?;
        browser.until(&format!("return document.querySelectorAll('{ROWS}').length === 6")).await?;
        browser
            .until("return document.body.innerText.includes('6 of 6 shapes ranked, 2 without a prediction')")
            .await?;
        let before: u64 = browser.script(requests).await?;
        browser.picture(&format!("list-{name}")).await?;
        assert!(browser.overflow().await? <= 0, "{name}");
        let said: String =
            browser.script("return document.querySelector('[data-testid=list]').innerText").await?;
        for part in
            ["1×28672×4096", "8×512×512×64", "NVIDIA H200 has 141 GB", "got `64x64`, expected a shape"]
        {
            assert!(said.contains(part), "`{part}` is not in {said}");
        }

        for button in ["CSV", "Inductor lookup_table"] {
            let press = format!(
                "[...document.querySelectorAll('[data-testid=list-progress] button')]
                    .find((one) => one.innerText === '{button}').click()"
            );
            browser.script::<()>(&press).await?;
        }
        browser.until("return Object.keys(window.files).length === 2").await?;
        let files: Value = browser.script("return window.files").await?;
        let csv = files["nvidia-h200-predicted.csv"].as_str().unwrap_or_default();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 7, "{csv}");
        let columns = lines[0].split(',').count();
        assert!(lines[1].starts_with("2,mm,1,1,28672,4096,bfloat16,row,row,none,"), "{csv}");
        assert!(lines[3].starts_with("4,addmm,1,2048,14336,4096,bfloat16,row,column,vector,"), "{csv}");
        assert!(lines[..5].iter().all(|line| line.split(',').count() == columns), "{csv}");
        for (line, number) in lines[5..].iter().zip([6, 7]) {
            assert!(line.starts_with(&format!("{number}{}\"", ",".repeat(columns - 1))), "{csv}");
        }
        let table = files["nvidia-h200-predicted-inductor.json"].as_str().unwrap_or_default();
        let table: Value = serde_json::from_str(table)?;
        let table = table.as_object().cloned().unwrap_or_default();
        assert_eq!(table.len(), 4);
        for (key, configs) in &table {
            assert!(key.starts_with("NVIDIA H200+((torch."), "{key}");
            assert_eq!(configs.as_array().map(Vec::len), Some(5), "{key}");
        }
        assert_eq!(browser.script::<u64>(requests).await?, before, "nothing is sent");
        assert_eq!(browser.complaints().await?, Vec::<String>::new());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_shapes_do_not_freeze_the_page() -> anyhow::Result<()> {
    let (_folder, server) = start()?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    browser.open(&format!("{}/predict/list", server.url()), "#shapes").await?;
    browser.until("return !document.body.innerText.includes('The model is on its way')").await?;
    let sizes =
        (0..1000_u32).map(|i| format!("{}x{}x{}", 16 + 8 * i, 512 + 64 * (i % 61), 256 + 128 * (i % 53)));
    let list: Vec<String> = sizes.collect();
    // A frame is drawn only between turns of the ranking.
    let count = "window.frames_drawn = 0;
        (function next() { window.frames_drawn += 1; requestAnimationFrame(next); })();";
    browser.script::<()>(count).await?;
    predict(&browser, &list.join("\n")).await?;
    let started: u64 = browser.script("return window.frames_drawn").await?;
    browser.until("return document.body.innerText.includes('1,000 of 1,000 shapes ranked')").await?;
    let drawn: u64 = browser.script::<u64>("return window.frames_drawn").await? - started;
    println!("{drawn} frames were drawn while 1,000 shapes were ranked");
    anyhow::ensure!(drawn >= 10, "the page was drawn {drawn} times while it ranked");
    assert_eq!(browser.complaints().await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_and_predict_give_one_time() -> anyhow::Result<()> {
    let (_folder, server) = start()?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    browser.open(&format!("{}/predict/list", server.url()), "#shapes").await?;
    predict(&browser, "2048x14336x4096 addmm column vector").await?;
    browser.wait_for(&format!("{ROWS} td.mono")).await?;
    let listed: String = browser
        .script(&format!("return [...document.querySelectorAll('{ROWS} td')].slice(4, 6).map((td) => td.innerText.trim()).join(' ')"))
        .await?;
    browser.script::<()>(&format!("document.querySelector('{ROWS} a').click()")).await?;
    browser.wait_for("[data-testid=candidates] [data-config]").await?;
    let first: String = browser
        .script("return ['.config', '.time'].map((part) => document.querySelector('.answer-line ' + part).innerText).join(' ')")
        .await?;
    assert_eq!(listed, first);
    Ok(())
}
