//! An administrator chooses which model is published. Everybody can read this on the models' pages. Set
//! DIODE_SCREENSHOTS to an absolute path to keep pictures.

use anyhow::ensure;
use diode_tests::{Browser, LOOKS, Server, collect_on_cpu, diode, trained_on_server};
use thirtyfour::By;

const STEPS: &str = "[data-testid=publications] tbody tr";

/// Does one thing to a model as an administrator, with a reason.
async fn act(
    browser: &Browser,
    server: &Server,
    (model, action, reason): (&str, &str, &str),
) -> anyhow::Result<()> {
    let form = format!("form:has(a[href='/models/{model}'])");
    browser.open(&format!("{}/admin/trainings", server.url()), &form).await?;
    browser.press(&format!("document.querySelector(\"{form} summary\")")).await?;
    let field = format!("{form} input[name=reason]");
    browser.driver.find(By::Css(field)).await?.send_keys(reason).await?;
    browser.press(&format!("document.querySelector(\"{form} button[value='{action}']\")")).await?;
    browser.until("return document.body.innerText.includes('Published: ')").await
}

/// The tags on a model's page.
async fn tags(browser: &Browser, server: &Server, model: &str) -> anyhow::Result<Vec<String>> {
    browser.open(&format!("{}/models/{model}", server.url()), STEPS).await?;
    browser.script("return [...document.querySelectorAll('.tag')].map((tag) => tag.textContent)").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_rolled_back_and_its_page_says_when_why_and_by_whom() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let server = Server::start(folder)?;
    collect_on_cpu(folder, "cpu.msgpack.zst", 6, 160)?;
    diode(folder, &["upload", "cpu.msgpack.zst", "--server", server.url()])?;
    let browser = Browser::start().await?;
    browser.sign_in_as_administrator(&server, folder).await?;

    let first = trained_on_server(&server, 0)?;
    act(&browser, &server, (&first, "pin", "the paper names it")).await?;
    // The first model is pinned, so the server does not publish the second, however good it is.
    let second = trained_on_server(&server, 1)?;
    act(&browser, &server, (&second, "publish", "it is better for us")).await?;
    ensure!(tags(&browser, &server, &second).await?.contains(&"published".to_owned()));
    act(&browser, &server, (&second, "roll-back", "it fails on our machines")).await?;

    // The history, newest first: step, model, who did it and why.
    let expected = [
        ("roll-back", &second, "root", "it fails on our machines"),
        ("publish", &second, "root", "it is better for us"),
        ("refuse", &second, "server", "pinned"),
        ("pin", &first, "root", "the paper names it"),
        ("publish", &first, "server", "the first model of its kind here"),
    ];
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        let of_first = tags(&browser, &server, &first).await?;
        ensure!(of_first.contains(&"published".to_owned()), "{look}: {of_first:?}");
        let steps: Vec<[String; 5]> = browser
            .script(&format!(
                "return [...document.querySelectorAll('{STEPS}')].map((row) => [...row.cells].map((cell) => cell.textContent))"
            ))
            .await?;
        ensure!(steps.len() == expected.len(), "{look}: {steps:?}");
        for ([when, step, model, who, why], expected) in steps.iter().zip(expected) {
            let is_dated = when.starts_with("20") && when.contains(':');
            let is_as_expected = (step.as_str(), model, who.as_str()) == (expected.0, expected.1, expected.2);
            ensure!(
                is_dated && is_as_expected && why.contains(expected.3),
                "{look}: {expected:?} in {steps:?}"
            );
        }
        browser.sound(look).await?;
        browser.script::<()>("document.querySelector('[data-testid=publications]').scrollIntoView()").await?;
        browser.picture(&format!("publications-{look}")).await?;
    }
    let of_second = tags(&browser, &server, &second).await?;
    ensure!(!of_second.contains(&"published".to_owned()), "{of_second:?}");
    browser.quiet("the model that was rolled back").await
}
