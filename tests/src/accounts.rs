//! Signing up and in, as people do in a browser.

use std::path::Path;

use anyhow::Context as _;
use thirtyfour::By;

use crate::programs::server_command;
use crate::{Browser, Server};

const PASSWORD: &str = "correct horse battery staple";

impl Browser {
    /// Makes an account, and agrees to the terms.
    pub async fn sign_up(&self, server: &Server, name: &str) -> anyhow::Result<()> {
        self.open(&format!("{}/sign-up", server.url()), "input[name=password]").await?;
        self.fill_in("input[name=name]", name).await?;
        self.fill_in("input[name=password]", PASSWORD).await?;
        self.driver.find(By::Css("input[name=terms]")).await?.click().await?;
        self.driver.find(By::Css("button.primary")).await?.click().await?;
        self.until("return location.pathname === '/account'").await
    }

    /// Makes an administrator of a server in a folder, opens the link that the operator gets, and signs in.
    pub async fn sign_in_as_administrator(&self, server: &Server, folder: &Path) -> anyhow::Result<()> {
        let created = server_command(folder, &["admin", "create", "root", "--admin"])?.output()?;
        let printed = String::from_utf8(created.stdout)?;
        let path = printed.lines().next().and_then(|link| link.splitn(4, '/').nth(3)).context("a link")?;
        self.open(&format!("{}/{path}", server.url()), "input[type=password]").await?;
        self.fill_in("input[type=password]", PASSWORD).await?;
        self.press("document.querySelector('main button')").await?;
        self.until("return document.body.innerText.includes('is changed')").await?;
        self.open(&format!("{}/sign-in", server.url()), "input[type=password]").await?;
        self.fill_in("input[name=name]", "root").await?;
        self.fill_in("input[type=password]", PASSWORD).await?;
        self.press("document.querySelector('main button')").await?;
        self.until("return location.pathname === '/account'").await
    }

    async fn fill_in(&self, field: &str, text: &str) -> anyhow::Result<()> {
        Ok(self.driver.find(By::Css(field)).await?.send_keys(text).await?)
    }
}
