//! The documents: the book that the server serves under /docs, and checks of words and links.

use crate::python;
use crate::shell::{self, cargo, command, root};

/// Finds misspelt words by a list of common mistakes. It has no dictionary, so it does not take names
/// for mistakes.
const SPELLING: &str = "codespell==2.4.1";
/// Words that codespell wrongly reports: names of types, a field, and deliberate errors in tests.
const NO_MISTAKES: &str = "ser,mape,entires,hiden";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Check links and spelling instead of building the book
    #[arg(long)]
    pub(crate) check: bool,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    if options.check {
        links()?;
        return spelling();
    }
    build()
}

/// Builds docs/book.
pub(crate) fn build() -> anyhow::Result<()> {
    shell::run(builder().arg("build").arg(root()))?;
    eprintln!("docs: the book is in docs/book; a server hands it out under /docs");
    Ok(())
}

/// Fails if a link between documents, or from code to a document, is broken.
pub(crate) fn links() -> anyhow::Result<()> {
    shell::run(builder().arg("check").arg(root()))
}

/// Fails on misspelt words in documents, code and comments.
pub(crate) fn spelling() -> anyhow::Result<()> {
    let interpreter = python::environment("spelling", &[SPELLING], "codespell_lib")?;
    let files = shell::output(
        command("git").args(["ls-files", "*.md", "*.rs", "*.py", "*.toml", "*.css", "*.html"]),
    )?;
    shell::run(
        command(interpreter)
            .args(["-m", "codespell_lib", "--ignore-words-list", NO_MISTAKES])
            .args(files.lines()),
    )
}

fn builder() -> std::process::Command {
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "diode-docs", "--"]);
    command
}
