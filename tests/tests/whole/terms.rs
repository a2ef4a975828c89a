//! In a real browser, people agree to the terms of contributing before they send a file or when they make an
//! account.

use diode_tests::{Browser, Server, Theme, Viewport, collect_on_cpu, diode};
use thirtyfour::By;

#[tokio::test(flavor = "multi_thread")]
async fn a_visitor_agrees_before_a_file_is_sent() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let server = Server::start_with(folder, &["--no-worker", "--anonymous", "uploads"])?;
    collect_on_cpu(folder, "a.msgpack.zst", 1, 64)?;
    let file = folder.join("a.msgpack.zst");
    let file = file.to_str().unwrap_or_default();
    let uploads = || anyhow::Ok(server.get("/api/v1/uploads")?.as_array().map_or(0, Vec::len));
    let browser = Browser::start().await?;
    browser.look(Viewport::PHONE, Theme::Light).await?;
    browser.open(&format!("{}/contribute", server.url()), "[data-testid=terms] input").await?;
    browser.looked_at("contribute-terms-phone-light").await?;
    // The whole text can be read.
    browser.driver.find(By::Css("[data-testid=terms] summary")).await?.click().await?;
    browser.until("return document.body.innerText.includes('6. No promises.')").await?;

    let choose = browser.driver.find(By::Css("input[type=file]")).await?;
    choose.send_keys(file).await?;
    browser.until("return document.body.innerText.includes('agree to the terms below first')").await?;
    assert_eq!(uploads()?, 0);
    let press = "[data-testid=ready] .button.primary";
    browser.wait_for(&format!("{press}:disabled")).await?;
    browser.driver.find(By::Css("[data-testid=terms] input")).await?.click().await?;
    browser.wait_for(&format!("{press}:enabled")).await?;
    browser.press(&format!("document.querySelector('{press}')")).await?;
    browser.wait_for("[data-testid=receipt]").await?;
    let receipt: String =
        browser.script("return document.querySelector('[data-testid=receipt]').innerText").await?;
    assert!(receipt.contains("MIT OR Apache-2.0, terms of contributing version 1"), "{receipt}");
    assert_eq!(server.get("/api/v1/uploads")?[0]["licence"]["terms"], 1);
    browser.looked_at("contribute-agreed-phone-light").await?;

    // The command line asks for the agreement, too, and sends nothing before somebody agrees.
    let upload = ["upload", "a.msgpack.zst", "--server", server.url()];
    assert!(diode(folder, &upload).is_err(), "nobody has agreed");
    diode(folder, &[&upload[..], &["--agree", "1"]].concat())?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_can_agree_when_it_is_made_or_later() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::start_with(folder.path(), &["--no-worker", "--anonymous", "none"])?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Dark).await?;
    browser.open(&format!("{}/terms", server.url()), "h1").await?;
    browser.looked_at("terms-desktop-dark").await?;
    browser.open(&format!("{}/sign-up", server.url()), "input[name=terms]").await?;
    let ticked: bool = browser.script("return document.querySelector('input[name=terms]').checked").await?;
    assert!(!ticked, "nobody agrees by overlooking a box");
    browser.driver.find(By::Css("input[name=name]")).await?.send_keys("ada").await?;
    browser
        .driver
        .find(By::Css("input[name=password]"))
        .await?
        .send_keys("correct horse battery staple")
        .await?;
    browser.driver.find(By::Css("button.primary")).await?.click().await?;
    browser.until("return location.pathname === '/account'").await?;

    browser.open(&format!("{}/contribute", server.url()), "[data-testid=terms] input").await?;
    browser.open(&format!("{}/account", server.url()), "form[action='/account/terms'] button").await?;
    browser.looked_at("account-terms-desktop-dark").await?;
    browser.driver.find(By::Css("form[action='/account/terms'] button")).await?.click().await?;
    browser.until("return document.body.innerText.includes('You agreed to version 1')").await?;
    // An account that has agreed is not asked again.
    browser.open(&format!("{}/contribute", server.url()), "[data-testid=terms]").await?;
    let asks: bool = browser.script("return !!document.querySelector('[data-testid=terms] input')").await?;
    assert!(!asks);
    Ok(())
}
