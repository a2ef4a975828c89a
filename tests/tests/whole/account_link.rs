//! The header's entry for the reader's account.

use anyhow::ensure;
use diode_tests::{Browser, LOOKS, Server};

const LINK: &str = "document.querySelector('header .account')";

#[tokio::test(flavor = "multi_thread")]
async fn the_header_leads_to_the_account() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::start_with(folder.path(), &["--no-worker"])?;
    let browser = Browser::start().await?;
    let page = format!("{}/compare?what=uploads", server.url());
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&page, "header .account").await?;
        browser.until(&format!("return {LINK}.innerText === 'Sign in' && {LINK}.offsetWidth > 0")).await?;
        browser.sound(look).await?;
    }
    // After signing in, the reader is back on the page.
    browser.press(LINK).await?;
    browser.until("return location.pathname === '/sign-in'").await?;
    ensure!(browser.script::<String>("return location.search").await? == "?next=%2Fcompare%3Fwhat%3Duploads");
    browser.sign_up(&server, "ada").await?;
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&page, "header .account").await?;
        browser.until(&format!("return {LINK}.innerText === 'ada'")).await?;
        let in_sight = format!(
            "const box = {LINK}.getBoundingClientRect(); return box.left >= 0 && box.right <= innerWidth"
        );
        ensure!(browser.script::<bool>(&in_sight).await?, "{look}");
        browser.sound(look).await?;
        browser.picture(&format!("signed-in-{look}")).await?;
    }
    browser.press(LINK).await?;
    browser.until("return location.pathname === '/account'").await
}
