//! Asking the agents for a measurement, from each page that can miss one. Set DIODE_SCREENSHOTS to an
//! absolute path to keep pictures.

use anyhow::{Context as _, ensure};
use diode_tests::{Browser, LOOKS, Server, Theme, Viewport, seeded, until};
use serde_json::json;

const BUTTON: &str = "document.querySelector('[data-testid=measure] button')";

fn state(name: &str) -> String {
    format!("return document.querySelector('[data-testid=measure]')?.dataset.state === '{name}'")
}

fn says(text: &str) -> String {
    format!("return document.body.innerText.includes('{text}')")
}

/// Presses the button as soon as it is visible and enabled.
async fn press(browser: &Browser) -> anyhow::Result<()> {
    browser
        .until(&format!("const one = {BUTTON}; return !!one && !one.disabled && !!one.offsetParent"))
        .await?;
    browser.script::<()>(&format!("{BUTTON}.scrollIntoView({{ block: 'center' }}); {BUTTON}.click()")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shape_that_nobody_measured_is_asked_for() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    for (number, (viewport, theme, look)) in (0_u32..).zip(LOOKS) {
        browser.look(viewport, theme).await?;
        let shape = format!("op=mm&m={}&n=5672&k=776&dtype=bfloat16&b_layout=column", 1237 + number);
        let page = format!("{}/predict?{shape}&hardware=nvidia-h200", server.url());
        browser.open(&page, "[data-testid=candidates] [data-config]").await?;
        browser.until(&state("unasked")).await?;
        browser.sound(look).await?;
        browser.script::<()>(&format!("{BUTTON}.scrollIntoView({{ block: 'center' }})")).await?;
        browser.picture(&format!("measure-{look}")).await?;

        press(&browser).await?;
        browser.until(&state("waiting")).await?;
        browser
            .until(&says("It is asked for. No agent with this hardware was seen in the last hour"))
            .await?;
        browser.sound(look).await?;
        browser.picture(&format!("measure-asked-{look}")).await?;

        // The problem's own page says, too, that the problem waits. The plan contains the problem.
        browser.until("return !!document.querySelector('a[href^=\"/problems/\"]')").await?;
        browser
            .script::<()>("[...document.querySelectorAll('main a')].find((a) => a.innerText === 'Ask agents to measure it').click()")
            .await?;
        browser.until(&says("Not measured yet")).await?;
        browser.until(&state("waiting")).await?;
        browser.sound(look).await?;
        browser.picture(&format!("measure-problem-{look}")).await?;
    }
    let map = server.get("/api/v1/hardware/nvidia-h200/coverage/map")?;
    let next = map["next"].as_array().context("what comes next")?;
    let wanted = next.iter().filter(|next| next["purpose"] == "wanted" && next["problem"]["n"] == 5672);
    assert_eq!(wanted.count(), LOOKS.len());
    // For a measured problem, the button is hidden.
    browser.open(&format!("{}/predict?hardware=nvidia-h200", server.url()), "[data-shape]").await?;
    browser.until(&state("measured")).await?;
    browser.until(&format!("return !{BUTTON}.offsetParent")).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_device_can_hold_is_not_offered() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    let shape = "op=mm&m=1000000000&n=4096&k=4096&dtype=bfloat16";
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser
            .open(&format!("{}/predict?{shape}&hardware=nvidia-h200", server.url()), "[data-testid=measure]")
            .await?;
        browser.until(&state("too-large")).await?;
        browser.until(&says("It cannot be measured: 1000000000×4096×4096 needs 16.4 TB for A, B and the output, and NVIDIA H200 has 141 GB.")).await?;
        ensure!(browser.script::<bool>(&format!("return !{BUTTON}.offsetParent")).await?, "{look}");
        browser.sound(look).await?;
        browser.picture(&format!("measure-too-large-{look}")).await?;
    }
    // For a smaller problem, the button is there again.
    browser
        .script::<()>(
            "const field = document.querySelector('input[name=m]');
             field.value = '1249';
             field.dispatchEvent(new Event('input', { bubbles: true }))",
        )
        .await?;
    browser.until(&state("unasked")).await?;
    browser.until(&format!("return !!{BUTTON}.offsetParent")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_for_people_it_knows_asks_who_wants_it() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start_with(folder.path(), &["--anonymous", "none"])?;
    let password = "correct horse battery staple";
    let account = json!({ "name": "ada", "password": password });
    ureq::post(format!("{}/api/v1/account", server.url()))
        .header("origin", server.url())
        .send_json(account)?;
    let browser = Browser::start().await?;
    browser.look(Viewport::PHONE, Theme::Light).await?;
    let page =
        format!("{}/predict?op=mm&m=1239&n=5672&k=776&dtype=bfloat16&hardware=nvidia-h200", server.url());
    browser.open(&page, "[data-testid=candidates] [data-config]").await?;
    browser.until(&state("unasked")).await?;
    press(&browser).await?;
    browser.until(&says("This server measures for people with an account")).await?;
    browser.sound("refused").await?;
    browser.picture("measure-sign-in-phone-light").await?;
    browser.until(&state("unasked")).await?;
    browser.until("return !!document.querySelector('[data-testid=measure] a[href^=\"/sign-in\"]')").await?;
    browser
        .script::<()>("document.querySelector('[data-testid=measure] a[href^=\"/sign-in\"]').click()")
        .await?;
    browser.wait_for("input[name=password]").await?;
    let fill = format!(
        "document.querySelector('input[name=name]').value = 'ada';
         document.querySelector('input[name=password]').value = '{password}';
         document.querySelector('button.primary').click()"
    );
    browser.script::<()>(&fill).await?;
    // After signing in, the reader is back on the page of the request.
    browser.until("return location.pathname === '/predict' && location.search.includes('m=1239')").await?;
    browser.until(&state("unasked")).await?;
    press(&browser).await?;
    browser.until(&state("waiting")).await?;
    Ok(())
}

/// Holds requests to the agents back until a test calls `window.send_wishes()`.
const HOLD_WISHES: &str = "const fetch = window.fetch;
    const held = new Promise((resolve) => { window.send_wishes = resolve; });
    window.fetch = (what, ...more) =>
        String(what.url || what).includes('/wanted') ? held.then(() => fetch(what, ...more)) : fetch(what, ...more)";

#[tokio::test(flavor = "multi_thread")]
async fn of_another_list_nothing_is_said_beside_the_next_one() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    browser.open(&format!("{}/predict/list", server.url()), "#shapes").await?;
    browser.until("return !document.body.innerText.includes('The model is on its way')").await?;
    browser.script::<()>(HOLD_WISHES).await?;
    let said = "document.querySelector('[data-testid=measure-all]').innerText.trim()";
    rank_list(&browser, &["1251x5672x776", "1252x5672x776"]).await?;
    browser.press(&button("Measure what nobody has measured")).await?;
    browser.until(&format!("return {said} === '0 shapes looked at …'")).await?;

    rank_list(&browser, &["1253x5672x776"]).await?;
    browser.until(&format!("return {said} === ''")).await?;
    let model: String =
        browser.script("return document.querySelector('#select-model').selectedOptions[0].text").await?;
    let hardware = model.split([' ', ',']).next().context("a model's hardware")?;
    browser.script::<()>("window.send_wishes()").await?;
    // All shapes of the first list are requested. The next list needs a request of its own.
    let planned = || {
        let map = server.get(&format!("/api/v1/hardware/{hardware}/coverage/map"))?;
        let next = map["next"].as_array().context("what comes next")?;
        anyhow::Ok(next.iter().filter(|next| next["problem"]["n"] == 5672).count())
    };
    until("the first list is asked for", || Ok(planned()? >= 2))?;
    browser.until_still().await;
    assert_eq!(browser.script::<String>(&format!("return {said}")).await?, "");
    assert_eq!(planned()?, 2);
    browser.press(&button("Measure what nobody has measured")).await?;
    browser.until(&format!("return {said}.startsWith('1 shape asked for now.')")).await?;
    assert_eq!(planned()?, 3);
    browser.sound("measure-all").await
}

fn button(text: &str) -> String {
    format!("[...document.querySelectorAll('button')].find((one) => one.innerText === '{text}')")
}

/// Ranks a list, and waits until its measurement can be requested.
async fn rank_list(browser: &Browser, shapes: &[&str]) -> anyhow::Result<()> {
    let fill = format!(
        "const field = document.querySelector('#shapes');
         field.value = '{}';
         field.dispatchEvent(new Event('input', {{ bubbles: true }}))",
        shapes.join("\\n")
    );
    browser.script::<()>(&fill).await?;
    let plural = if shapes.len() == 1 { "" } else { "s" };
    browser.press(&button(&format!("Predict {} shape{plural}", shapes.len()))).await?;
    browser.until(&says(&format!("{0} of {0} shape{plural} ranked", shapes.len()))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_list_only_what_is_missing_is_asked_for() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    let board = "/api/v1/hardware/nvidia-h200/leaderboard?op=mm&dtype=bfloat16&b_layout=row&limit=1";
    let known = &server.get(board)?["items"][0]["problem"];
    ensure!(known["a_layout"] == "row", "{known}");
    let list = format!(
        "{}x{}x{}\\n1241x5672x776\\n1242x5672x776\\n1241x5672x776",
        known["m"], known["n"], known["k"]
    );
    let button = "[...document.querySelectorAll('[data-testid=list-progress] button')]
        .find((one) => one.innerText === 'Measure what nobody has measured')";
    let ready = format!("const one = {button}; return !!one && !one.disabled");
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&format!("{}/predict/list", server.url()), "#shapes").await?;
        browser.until("return !document.body.innerText.includes('The model is on its way')").await?;
        // The list is ranked for the hardware of the measured shape.
        let fill = format!(
            "const models = document.querySelector('#select-model');
             models.value = [...models.options].find((one) => one.text.startsWith('nvidia-h200')).value;
             models.dispatchEvent(new Event('change', {{ bubbles: true }}));
             const field = document.querySelector('#shapes');
             field.value = '{list}';
             field.dispatchEvent(new Event('input', {{ bubbles: true }}))"
        );
        browser.script::<()>(&fill).await?;
        browser.until("const one = document.querySelector('button.primary'); return !one.disabled && one.innerText === 'Predict 4 shapes'").await?;
        browser.script::<()>("document.querySelector('button.primary').click()").await?;
        browser.until(&says("4 of 4 shapes ranked")).await?;
        browser.until(&ready).await?;
        browser.script::<()>(&format!("{button}.click()")).await?;
        let asked = if look == LOOKS[0].2 {
            "2 shapes asked for now, 1 measured already."
        } else {
            "0 shapes asked for now, 2 on the list already, 1 measured already."
        };
        browser.until(&says(asked)).await.with_context(|| look)?;
        browser.sound(look).await?;
        browser.picture(&format!("measure-list-{look}")).await?;
    }
    Ok(())
}
