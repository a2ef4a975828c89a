//! A list of shapes: predicted in the browser, and saved as a file.

use anyhow::{Context as _, ensure};
use diode_tests::{Browser, CATCH_FILES, LOOKS, Theme, Viewport, seeded_server};
use serde_json::Value;

const ROWS: &str = "[data-testid=list] tbody tr";

#[tokio::test(flavor = "multi_thread")]
async fn a_list_becomes_a_table_and_two_files() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    let list = "# decode\n1x28672x4096\n16, 4096, 14336 fp16\n2048x14336x4096 addmm column vector\n\
                8x512x512x64\n1000000000x4096x4096\n64x64\n";
    for (viewport, theme, name) in
        [(Viewport::DESKTOP, Theme::Light, "desktop"), (Viewport::PHONE, Theme::Dark, "phone")]
    {
        browser.look(viewport, theme).await?;
        browser.open_list(&server).await?;
        browser.script::<()>(CATCH_FILES).await?;
        let requests = "return performance.getEntriesByType('resource').length";
        browser.rank_list(list).await?;
        browser.until(&format!("return document.querySelectorAll('{ROWS}').length === 6")).await?;
        browser
            .until("return document.body.innerText.includes('4 of 6 shapes ranked, 2 without a prediction')")
            .await?;
        let before: u64 = browser.script(requests).await?;
        browser.sound(&format!("list-{name}")).await?;
        browser.picture(&format!("list-{name}")).await?;
        assert!(browser.overflow().await? <= 0, "{name}");
        let said: String =
            browser.script("return document.querySelector('[data-testid=list]').innerText").await?;
        for part in [
            "1×28672×4096",
            "8×512×512×64",
            "NVIDIA H200 has 141 GB",
            "got `64x64`, expected a size such as 16x4096x4096",
        ] {
            assert!(said.contains(part), "`{part}` is not in {said}");
        }

        for button in ["CSV", "Inductor lookup_table"] {
            browser.press_in_list(button).await?;
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
async fn the_list_and_predict_give_one_time() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    browser.open_list(&server).await?;
    browser.rank_list("2048x14336x4096 addmm column vector").await?;
    browser.wait_for(&format!("{ROWS} td.mono")).await?;
    let listed: String = browser
        .script(&format!("return [...document.querySelectorAll('{ROWS} td')].slice(4, 6).map((td) => td.innerText.trim()).join(' ')"))
        .await?;
    browser.press(&format!("document.querySelector('{ROWS} a')")).await?;
    browser.wait_for("[data-testid=candidates] [data-config]").await?;
    // The first of Predict's candidates that is no library kernel.
    let first: String = browser
        .script(
            "const row = [...document.querySelectorAll('[data-testid=candidates] [data-config]')]
                .find((row) => row.dataset.config !== 'library');
             return [0, 2].map((place) => row.cells[place].innerText.trim()).join(' ')",
        )
        .await?;
    assert_eq!(listed, first);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn triton_stands_first_even_where_the_library_wins() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open_list(&server).await?;
        browser.script::<()>(CATCH_FILES).await?;
        browser
            .rank_list(
                "8192x8192x8192\n1024x1024x1024 tf32\n1024x1024x1024 fp32 tf32\n64x64x64 bf16 tf32\n\
                 2048x14336x4096 addmm column vector\n1000000000x4096x4096",
            )
            .await?;
        browser.until(&format!("return document.querySelectorAll('{ROWS}').length === 6")).await?;
        browser
            .until("return document.body.innerText.includes('4 of 6 shapes ranked, 2 without a prediction')")
            .await?;
        browser.sound(&format!("list-library-{look}")).await?;
        browser.picture(&format!("list-library-{look}")).await?;
        let rows: Vec<Vec<String>> = browser
            .script(&format!(
                "return [...document.querySelectorAll('{ROWS}')].map((row) => [...row.cells].map((cell) => cell.innerText.trim()))"
            ))
            .await?;
        // In the first row, where the library is ranked first, Triton's config, time and ratio
        // stand, too.
        let library_first = &rows[0];
        ensure!(
            library_first[4].contains('×') && library_first[6].contains("ms"),
            "{look}: {library_first:?}"
        );
        ensure!(library_first[7].ends_with("% slower"), "{look}: {library_first:?}");
        let bold = format!("return document.querySelector('{ROWS} strong').innerText");
        ensure!(browser.script::<String>(&bold).await? == library_first[6], "{look}");
        // A line may ask for TF32 in two ways. The library then rounds, too.
        ensure!(
            rows[1][2..] == rows[2][2..] && rows[1][3] == "float32, TF32" && rows[1][6].ends_with("µs"),
            "{look}: {rows:?}"
        );
        ensure!(rows[3][2].contains("got tf32 with bfloat16, expected float32"), "{look}: {rows:?}");
        // No column is cut off on a desktop.
        let fits = "const box = document.querySelector('[data-testid=list]').parentElement;
            return innerWidth < 1000 || box.scrollWidth <= box.clientWidth";
        ensure!(browser.script::<bool>(fits).await?, "{look}: the table is cut");

        for button in ["CSV", "Inductor lookup_table"] {
            browser.press_in_list(button).await?;
        }
        browser.until("return Object.keys(window.files).length === 2").await?;
        let files: Value = browser.script("return window.files").await?;
        let csv = files["nvidia-h200-predicted.csv"].as_str().unwrap_or_default();
        let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
        let column = |name: &str| lines[0].iter().position(|one| *one == name).context("a column");
        let first = &lines[1];
        ensure!(first[column("template")?] == "triton::mm" && first[column("pick")?] == "library", "{csv}");
        let time = |name: &str| anyhow::Ok(first[column(name)?].parse::<f64>()?);
        let ratio = time("library_us")? / time("predicted_us")?;
        ensure!((time("triton_over_library")? - ratio).abs() < 1e-3, "{csv}");
        // A shape's entry begins with the library's kernel if the page ranks this kernel first.
        let table = files["nvidia-h200-predicted-inductor.json"].as_str().unwrap_or_default();
        let table: Value = serde_json::from_str(table)?;
        let begins = |key: &str| {
            let (_, entry) = table.as_object()?.iter().find(|(own, _)| own.contains(key))?;
            Some(entry[0]["template_id"].as_str()?.to_owned())
        };
        ensure!(begins("8192").as_deref() == Some("aten::mm"), "{table}");
        // Predict gets the rounding, too.
        browser.press(&format!("document.querySelectorAll('{ROWS} a')[1]")).await?;
        browser.until("return location.search.includes('tf32=1')").await?;
        browser.wait_for("[data-testid=candidates] [data-config]").await?;
    }
    Ok(())
}

/// A log that torch 2.11 prints while it tunes.
const LOG: &str = "Autotune Choices Stats:
{\"num_choices\": 2, \"best_kernel\": \"bias_addmm\", \"best_time\": 0.016383999958634377}
AUTOTUNE addmm(2048x14336, 2048x4096, 4096x14336)
strides: [0, 1], [4096, 1], [1, 4096]
dtypes: torch.bfloat16, torch.bfloat16, torch.bfloat16
  bias_addmm 0.3640 ms 100.0%
  triton_mm_18 0.3957 ms 92.0% ACC_TYPE='tl.float32', ALLOW_TF32=False, BLOCK_K=64, num_stages=3, num_warps=4
SingleProcess AUTOTUNE benchmarking takes 0.0290 seconds and 0.0002 seconds precompiling for 2 choices
AUTOTUNE mm(s0x4096, 4096x4096)
";

const RECORDING: &str = r#"[
 {"a_dtype": "bfloat16", "op": "addmm", "b": 1, "m": 2048, "n": 14336, "k": 4096, "b_dtype": "bfloat16",
  "out_dtype": "bfloat16", "a_layout": "row", "b_layout": "column", "bias": "vector"},
 {"a_dtype": "float16", "op": "mm", "b": 1, "m": 0, "n": 4096, "k": 4096, "b_dtype": "float16",
  "out_dtype": "float16", "a_layout": "row", "b_layout": "row", "bias": "none"}
]"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_log_and_a_recording_say_the_same_as_a_line() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    let first = format!(
        "return [...document.querySelector('{ROWS}')?.cells].filter((_, i) => i !== 1).map((cell) => cell.innerText.trim()).join(' ')"
    );
    for (viewport, theme, look) in
        [(Viewport::DESKTOP, Theme::Dark, "desktop"), (Viewport::PHONE, Theme::Light, "phone")]
    {
        browser.look(viewport, theme).await?;
        let mut said = Vec::new();
        for (text, lines, wrong) in [
            ("2048x14336x4096 addmm column vector", 1, ""),
            (LOG, 2, "got the size `s0`, expected a number"),
            (RECORDING, 2, "M: got 0, expected a size"),
        ] {
            browser.open_list(&server).await?;
            browser.rank_list(text).await?;
            browser.until(&format!("return document.querySelectorAll('{ROWS}').length === {lines}")).await?;
            let table: String =
                browser.script("return document.querySelector('[data-testid=list]').innerText").await?;
            anyhow::ensure!(table.contains(wrong), "{look}: `{wrong}` is not in {table}");
            said.push(browser.script::<String>(&first).await?);
            anyhow::ensure!(browser.overflow().await? <= 0, "{look}: wider than the window");
            let barriers = browser.inaccessible().await?;
            anyhow::ensure!(barriers.is_empty(), "{look}: axe: {barriers:?}");
            assert_eq!(browser.complaints().await?, Vec::<String>::new());
        }
        browser.sound(&format!("list-recorded-{look}")).await?;
        browser.picture(&format!("list-recorded-{look}")).await?;
        anyhow::ensure!(
            said[0].contains("2048×14336×4096") && said[0] == said[1] && said[1] == said[2],
            "{said:?}"
        );
    }
    Ok(())
}
