//! `diode login` with a real browser: the user allows the login on a page, and the command goes on. Set
//! DIODE_SCREENSHOTS to an absolute path to keep pictures.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use anyhow::{Context, bail};
use diode_tests::{Browser, Server, Theme, Viewport, collect_on_cpu, diode, diode_command};
use thirtyfour::By;

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_allowed_in_the_browser() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let server = Server::start_with(folder, &["--no-worker", "--anonymous", "none"])?;
    collect_on_cpu(folder, "a.msgpack.zst", 1, 64)?;
    let upload = ["upload", "a.msgpack.zst", "--server", server.url()];
    assert!(diode(folder, &upload).is_err(), "an upload needs an account here");

    let mut login = diode_command(folder, &["login", "--server", server.url()])?;
    let mut login = login.stderr(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(login.stderr.take().context("stderr is piped")?).lines();
    let page = loop {
        let line = lines.next().context("diode login ended early")??;
        if let Some(page) = line.strip_prefix("Open ") {
            break page.to_owned();
        }
    };

    let browser = Browser::start().await?;
    browser.look(Viewport::PHONE, Theme::Dark).await?;
    browser.open(&format!("{}/sign-up", server.url()), "input[name=password]").await?;
    browser.looked_at("sign-up-phone-dark").await?;
    browser.sign_up(&server, "ada").await?;
    for (name, viewport, theme) in [
        ("device-phone-dark", Viewport::PHONE, Theme::Dark),
        ("device-desktop-light", Viewport::DESKTOP, Theme::Light),
    ] {
        browser.look(viewport, theme).await?;
        browser.open(&page, "button[value=allow]").await?;
        browser.looked_at(name).await?;
    }
    browser.driver.find(By::Css("button[value=allow]")).await?.click().await?;
    browser.until("return document.body.innerText.includes('has its token now')").await?;
    let said: Vec<String> = lines.collect::<Result<_, _>>()?;
    if !login.wait()?.success() {
        bail!("diode login failed: {said:?}");
    }
    assert!(said.iter().any(|line| line.contains("as ada")), "{said:?}");
    diode(folder, &upload)?;
    for (name, viewport, theme) in [
        ("account-phone-light", Viewport::PHONE, Theme::Light),
        ("account-desktop-dark", Viewport::DESKTOP, Theme::Dark),
    ] {
        browser.look(viewport, theme).await?;
        browser.open(&format!("{}/account", server.url()), "form[action='/account/tokens/revoke']").await?;
        browser.looked_at(name).await?;
    }
    // After the page has revoked the token, the token no longer works.
    browser.driver.find(By::Css("form[action='/account/tokens/revoke'] button")).await?.click().await?;
    browser.until("return !document.querySelector('form[action=\"/account/tokens/revoke\"]')").await?;
    assert!(diode(folder, &upload).is_err());
    Ok(())
}
