//! Barriers for people who use a keyboard, a screen reader or large text, as axe-core finds them.

use std::path::PathBuf;

use anyhow::{Context, ensure};

use crate::Browser;

/// Where `cargo xtask setup` puts axe-core, below the target folder and below `site-packages`.
const ENVIRONMENT: &str = "axe-core/lib";
const SCRIPT: &str = "site-packages/axe_playwright_python/axe.min.js";

/// Returns one line per rule that the page breaks, with the elements that break it. The rows of a table are alike,
/// and axe takes many seconds for hundreds of them. So only the first rows of a long table are checked.
const RUN: &str = "const page = { exclude: [['tbody tr:nth-child(n + 31)']] };
    return axe.run(page, { resultTypes: ['violations'], RULES }).then(({ violations }) =>
    violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ target }) => target.join(' ')).slice(0, 5).join(', ')))";

impl Browser {
    /// The accessibility rules that the page breaks.
    pub async fn inaccessible(&self) -> anyhow::Result<Vec<String>> {
        self.broken("").await
    }

    async fn broken(&self, rules: &str) -> anyhow::Result<Vec<String>> {
        // Contents that are about to be replaced are pale, and pale text would break the rule on contrast.
        self.until(SETTLED).await?;
        self.driver.execute(source()?, Vec::new()).await?;
        self.script(&RUN.replace("RULES", rules)).await
    }

    /// Fails if the page is wider than the window, has too little contrast, or has met an error.
    pub async fn legible(&self, name: &str) -> anyhow::Result<()> {
        let barriers = self.broken("runOnly: ['color-contrast']").await?;
        ensure!(barriers.is_empty(), "{name}: axe: {barriers:?}");
        self.quiet(name).await
    }

    /// Fails if the page is wider than the window, breaks a rule of accessibility, or has met an error.
    pub async fn sound(&self, name: &str) -> anyhow::Result<()> {
        let barriers = self.inaccessible().await?;
        ensure!(barriers.is_empty(), "{name}: axe: {barriers:?}");
        self.quiet(name).await
    }
}

const SETTLED: &str = "return !document.querySelector('.busy')
    && !document.getAnimations().some((one) => one instanceof CSSTransition)";

fn source() -> anyhow::Result<String> {
    let test = std::env::current_exe()?;
    let target = test.ancestors().nth(3).context("a test runs from target/<profile>/deps")?;
    let environment = target.join(ENVIRONMENT);
    let missing = || format!("no axe-core in {}; run `cargo xtask setup`", environment.display());
    let versions = std::fs::read_dir(&environment).with_context(missing)?;
    let scripts = versions.filter_map(|version| Some(version.ok()?.path().join(SCRIPT)));
    let script: Option<PathBuf> = scripts.into_iter().find(|script| script.is_file());
    Ok(std::fs::read_to_string(script.with_context(missing)?)?)
}
