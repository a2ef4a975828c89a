//! Shapes that are pasted: anywhere on the overview, and as a whole into the field of one size. Also what Predict
//! says of a shape while the reader changes it.

use anyhow::ensure;
use diode_tests::{Browser, Theme, Viewport, seeded_server};

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
                .until("return location.pathname === '/compare' && location.search.includes('28672')")
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
        browser.script::<()>(&paste("document.querySelector('#size-m')", "64")).await?;
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
            "2048 x 14336 x 4096 addmm fp16 column vector",
            "op=addmm&b=1&m=2048&n=14336&k=4096&dtype=float16&b_layout=column&bias=vector",
            "2048×14336×4096",
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
    // The overview's form passes on all that the text says.
    browser.open(server.url(), "#size-m").await?;
    browser.script::<()>(&paste_into("#size-m", "8x1024x1024x512 fp32 tf32")).await?;
    browser.press("document.querySelector('form.lookup .button.primary')").await?;
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
