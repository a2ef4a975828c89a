//! From the overview, a newcomer gets a shape's best configs by one paste, and a dataset or an agent's command
//! by two clicks. Set DIODE_SCREENSHOTS to an absolute path to keep pictures.

use anyhow::ensure;
use diode_tests::{Browser, LOOKS, Server, seeded};

#[tokio::test(flavor = "multi_thread")]
async fn the_best_configs_of_a_shape_on_two_gpus_are_one_paste_away() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(server.url(), ".paste textarea").await?;
        browser
            .script::<()>(
                "const field = document.querySelector('.paste textarea');
                 field.value = '1×28672×4096 bf16';
                 field.dispatchEvent(new InputEvent('input', { bubbles: true, inputType: 'insertFromPaste' }));",
            )
            .await?;
        browser.wait_for("[data-testid=side-by-side] tbody tr").await?;
        let rows: Vec<Vec<String>> = browser
            .script(
                "return [...document.querySelectorAll('[data-testid=side-by-side] tbody tr')]
                    .map((row) => [...row.querySelectorAll('td, th')].map((cell) => cell.innerText.trim()))",
            )
            .await?;
        for name in ["H100", "H200"] {
            let row = rows.iter().find(|row| row[0].starts_with(name));
            // The row must have a Triton config, its time and the library's time.
            let is_whole = row.is_some_and(|row| {
                row[2].contains('×') && [3, 4].into_iter().all(|cell| row[cell].contains("µs"))
            });
            ensure!(is_whole, "{look}: {name} is not there: {rows:?}");
        }
        browser.sound(look).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dataset_as_parquet_and_an_agents_command_are_two_clicks_away() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(server.url(), "a.card-link[href='/hardware/nvidia-h100']").await?;
        browser.press("document.querySelector(\"a.card-link[href='/hardware/nvidia-h100']\")").await?;
        let chip = "a.chip[download][href$='/datasets/nvidia-h100.parquet']";
        browser.wait_for(chip).await?;
        // The second click opens the link, whose file must be Parquet.
        let file = format!(
            "return fetch(document.querySelector(\"{chip}\").href).then((reply) => reply.arrayBuffer())
                .then((bytes) => new TextDecoder().decode(bytes.slice(0, 4)))"
        );
        ensure!(browser.script::<String>(&file).await? == "PAR1", "{look}: it is no Parquet");
        browser.sound(look).await?;
        browser.picture(&format!("newcomer-parquet-{look}")).await?;

        browser.open(server.url(), "nav a[href='/contribute']").await?;
        browser.press("document.querySelector(\"nav a[href='/contribute']\")").await?;
        browser.wait_for("[data-testid=agent] .copy").await?;
        browser
            .script::<()>("window.copied = ''; navigator.clipboard.writeText = async (text) => { window.copied = text }")
            .await?;
        browser.press("document.querySelector('[data-testid=agent] .copy')").await?;
        let command = format!("diode agent --server {}", server.url());
        browser.until(&format!("return window.copied === '{command}'")).await?;
        browser.sound(look).await?;
        browser.picture(&format!("newcomer-agent-{look}")).await?;
    }
    Ok(())
}
