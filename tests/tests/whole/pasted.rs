//! Shapes that are pasted: anywhere on the overview, and as a whole into the field of one size. Also what Predict
//! says of a shape while the reader changes it.

use anyhow::ensure;
use diode_tests::{Browser, LOOKS, Theme, Viewport, seeded_server};

/// Pastes a text into `place`, a JavaScript expression for an element.
fn paste(place: &str, text: &str) -> String {
    format!(
        "const carried = new DataTransfer();
         carried.setData('text/plain', {text:?});
         ({place}).dispatchEvent(new ClipboardEvent('paste', {{ clipboardData: carried, bubbles: true }}));"
    )
}

/// Writes a text into a field as a paste does.
fn paste_into(field: &str, text: &str) -> String {
    format!(
        "const field = document.querySelector({field:?});
         field.value = {text:?};
         field.dispatchEvent(new InputEvent('input', {{ inputType: 'insertFromPaste', bubbles: true }}));"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paste_is_heard_anywhere_on_the_overview() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    for (viewport, theme) in [(Viewport::DESKTOP, Theme::Light), (Viewport::PHONE, Theme::Dark)] {
        browser.look(viewport, theme).await?;
        for place in ["document.body", "document.querySelector('h1')", "document.querySelector('.card-link')"]
        {
            browser.open(server.url(), "a.card-link").await?;
            browser.script::<()>(&paste(place, "1x28672x4096 bf16")).await?;
            browser
                .until("return location.pathname === '/predict' && location.search.includes('28672')")
                .await?;
        }
        browser.open(server.url(), "a.card-link").await?;
        browser.script::<()>(&paste("document.body", "64x64x64\n128x64x64 tf32\n")).await?;
        browser.until("return document.body.innerText.includes('2 of 2 shapes ranked')").await?;
        // Once the reader has left the overview, a paste does nothing.
        browser.script::<()>(&paste("document.body", "1x28672x4096")).await?;
        // A text that cannot be a shape, or that a field takes, opens no page.
        browser.open(server.url(), "a.card-link").await?;
        browser.script::<()>(&paste("document.body", "hello")).await?;
        browser.script::<()>(&paste("document.querySelector('.paste textarea')", "64")).await?;
        ensure!(browser.script::<bool>("return location.pathname === '/'").await?);
        browser.quiet("overview").await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_size_understands_a_whole_shape() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    let predict = format!("{}/predict?hardware=nvidia-h200", server.url());
    for (text, address, dims) in [
        ("8x1024x1024x512 fp16", "op=bmm&b=8&m=1024&n=1024&k=512&dtype=float16", "8×1024×1024×512"),
        ("1x28672x4096 bf16", "op=mm&b=1&m=1&n=28672&k=4096&dtype=bfloat16", "1×28672×4096"),
        (
            "2048 x 14080 x 4096 addmm fp16 column vector",
            "op=addmm&b=1&m=2048&n=14080&k=4096&dtype=float16&b_layout=column&bias=vector",
            "2048×14080×4096",
        ),
        ("1024x1024x1024 tf32", "m=1024&n=1024&k=1024&dtype=float32&b_layout=row&tf32=1", "1024×1024×1024"),
    ] {
        browser.open(&predict, "[data-testid=candidates] [data-config]").await?;
        browser.script::<()>(&paste_into("#size-m", text)).await?;
        browser.until(&format!("return location.search.includes('{address}')")).await?;
        browser
            .until(&format!(
                "return document.querySelector('[data-testid=candidates]').dataset.problem === '{dims}'"
            ))
            .await?;
        browser.quiet(text).await?;
    }
    // The overview's bar passes on all that the text says.
    browser.open(server.url(), ".paste textarea").await?;
    browser.script::<()>(&paste_into(".paste textarea", "8x1024x1024x512 fp32 tf32")).await?;
    browser
        .until("return ['op=bmm', 'b=8', 'k=512', 'dtype=float32', 'tf32=1'].every((part) => location.search.includes(part))")
        .await?;
    browser.wait_for("[data-testid=candidates] [data-config]").await?;
    browser.quiet("overview").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_is_never_that_of_another_shape() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    for (viewport, theme) in [(Viewport::DESKTOP, Theme::Light), (Viewport::PHONE, Theme::Dark)] {
        browser.look(viewport, theme).await?;
        browser.open(&format!("{}/predict?hardware=nvidia-h200", server.url()), "[data-shape]").await?;
        let measured = "return document.body.innerText.includes('This shape was measured here')";
        browser.until(measured).await?;
        // From the moment in which the shape changes, the page no longer says that it was measured.
        let change = "const field = document.querySelector('#size-m');
            field.value = '1249';
            field.dispatchEvent(new Event('input', { bubbles: true }));
            window.wrong = 0;
            const look = () => {
                const said = document.querySelector('main').innerText;
                if (/This shape was measured here|this one|This shape is measured/.test(said)) window.wrong += 1;
                requestAnimationFrame(look);
            };
            requestAnimationFrame(() => requestAnimationFrame(look));";
        browser.script::<()>(change).await?;
        browser
            .until("return document.querySelector('[data-testid=measure]')?.dataset.state === 'unasked'")
            .await?;
        ensure!(browser.script::<u32>("return window.wrong").await? == 0);
    }
    Ok(())
}

/// A time as the dashboard writes it: three digits and a unit.
fn micros(us: f64) -> String {
    let decimals =
        [(99.95, 0), (9.995, 1)].iter().find(|(from, _)| us >= *from).map_or(2, |(_, decimals)| *decimals);
    format!("{us:.decimals$}\u{a0}µs")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bar_opens_everywhere_and_the_answer_is_a_sentence() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    let key = |key: &str, ctrl: bool| {
        format!(
            "document.body.dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}', ctrlKey: {ctrl}, bubbles: true }}))"
        )
    };
    let write = |text: &str| {
        format!(
            "const field = document.querySelector('#bar textarea');
             field.value = {text:?};
             field.dispatchEvent(new InputEvent('input', {{ inputType: 'insertText', bubbles: true }}));
             field.dispatchEvent(new KeyboardEvent('keydown', {{ key: 'Enter', bubbles: true }}))"
        )
    };
    const OPENED: &str =
        "return document.activeElement === document.querySelector('#bar:popover-open textarea')";
    const SENTENCE: &str =
        "return document.querySelector('[data-testid=answer] .sentence')?.textContent ?? ''";
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&format!("{}/datasets", server.url()), "main h1").await?;
        browser.script::<()>(&key("/", false)).await?;
        browser.until(OPENED).await?;
        browser.sound(&format!("bar-{look}")).await?;
        browser.picture(&format!("bar-{look}")).await?;
        browser.script::<()>(&write("M=512 N=14080")).await?;
        browser.until("return document.querySelector('#bar-fault').innerText.includes('all three')").await?;
        browser.script::<()>(&write("[512, 4096] @ [4096, 14080] bf16 on H100")).await?;
        browser.wait_for("[data-testid=candidates][data-problem='512×14080×4096']").await?;
        ensure!(
            browser.script::<bool>("return !document.querySelector('#bar:popover-open')").await?,
            "the bar stays"
        );
        browser.until("return document.querySelector('[data-testid=answer] .sentence').textContent.includes('neighbours')").await?;
        let said: String = browser.script(SENTENCE).await?;
        ensure!(said.starts_with("On H100, ") && said.contains("predicted"), "{look}: {said}");
        // The sentence has the times of the table below it, and the config to copy is the best tile there.
        let rows: Vec<(String, f64)> = browser
            .script("return [...document.querySelectorAll('[data-testid=candidates] [data-config]')].map((row) => [row.dataset.config, Number(row.dataset.predictedUs)])")
            .await?;
        let tile =
            rows.iter().find(|(config, _)| config != "library").ok_or_else(|| anyhow::anyhow!("{rows:?}"))?;
        ensure!(said.contains(&micros(tile.1)), "{look}: {said}: {tile:?}");
        let python: String = browser
            .script("return document.querySelector('[data-testid=answer] .snippet').innerText")
            .await?;
        let block_m = tile.0.split('x').next().unwrap_or_default();
        ensure!(python.contains(&format!("triton.Config({{\"BLOCK_M\": {block_m}")), "{look}: {python}");
        let predicted = "return document.querySelectorAll('[data-testid=side-by-side] td.mono').length === 2";
        browser.until(predicted).await?;
        browser.sound(&format!("answer-{look}")).await?;
        browser.picture(&format!("answer-{look}")).await?;
        // The hardware is remembered, and shown.
        browser
            .open(
                &format!("{}/predict?m=512&n=512&k=512", server.url()),
                "[aria-label=GPU] [aria-pressed=true]",
            )
            .await?;
        let shown: String = browser
            .script("return document.querySelector('[aria-label=GPU] [aria-pressed=true]').textContent")
            .await?;
        ensure!(shown == "H100", "{look}: {shown}");
        // An id leads to its page, whose sentence has the times of the API.
        let board = server.get(
            "/api/v1/hardware/nvidia-h200/leaderboard?dtype=bfloat16&limit=1&method=median-cold-event",
        )?;
        let row = &board["items"][0];
        let id = row["problem_id"].as_str().unwrap_or_default();
        browser.script::<()>(&key("k", true)).await?;
        browser.until(OPENED).await?;
        browser.script::<()>(&write(id)).await?;
        browser.until(&format!("return location.pathname === '/problems/{id}'")).await?;
        browser
            .open(&format!("{}/problems/{id}?hardware=nvidia-h200", server.url()), "[data-testid=answer]")
            .await?;
        let said: String = browser.script(SENTENCE).await?;
        for kernel in ["triton", "library"] {
            let us = row[kernel]["us"].as_f64().unwrap_or_default();
            ensure!(said.contains(&micros(us)) && said.ends_with("measured."), "{look}: {said}: {us}");
        }
        browser.quiet(look).await?;
    }
    Ok(())
}
