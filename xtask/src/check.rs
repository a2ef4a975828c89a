//! Checks without tests: format, lints, dependencies, Python and documentation.

use crate::shell::{self, cargo, command, environment, root, tool};
use crate::steps::Steps;
use crate::{setup, web};

/// ruff checks format and lints, and mypy types. mypy needs pytest for the types in the tests.
const PYTHON: [&str; 3] = ["ruff==0.17.6", "mypy==2.4.1", "pytest==9.2.0"];

pub(crate) fn run() -> anyhow::Result<()> {
    setup::wasm_target()?;
    let mut steps = Steps::default();
    before_building(&mut steps);
    compiling(&mut steps);
    steps.finish()
}

/// Checks that compile none of our code.
pub(crate) fn before_building(steps: &mut Steps) {
    steps.check("rustfmt", || shell::run(cargo().args(["fmt", "--all", "--check"])));
    steps.check("dependencies", dependencies);
    steps.check("Python", python_sources);
}

fn python_sources() -> anyhow::Result<()> {
    let python = environment("python-checks", &PYTHON, "ruff, mypy, pytest")?;
    let checks: [&[&str]; 4] = [
        &["ruff", "check", "."],
        &["ruff", "format", "--check", "."],
        &["mypy"],
        &["mypy", "--no-strict-optional", "--no-warn-unreachable", "python/tests"],
    ];
    for check in checks {
        shell::run(command(&python).arg("-m").args(check))?;
    }
    Ok(())
}

/// Checks that compile the workspace, but only to check types.
pub(crate) fn compiling(steps: &mut Steps) {
    const DENY: [&str; 3] = ["--", "-D", "warnings"];
    steps.check("clippy", || shell::run(cargo().args(["clippy", "--workspace", "--all-targets"]).args(DENY)));
    steps.check("clippy for the browser", || {
        let packages = ["--package", "diode-web", "--package", web::WORKER];
        let clippy = ["clippy", "--target", web::WASM];
        shell::run(cargo().args(clippy).args(packages).args(DENY))
    });
    steps.check("documentation", || {
        shell::run(cargo().env("RUSTDOCFLAGS", "-D warnings").args(["doc", "--workspace", "--no-deps"]))
    });
    steps.check("links of documents", links);
    steps.check("spelling", spelling);
}

/// deny.toml says what is allowed. Advisories are not checked, because they need a database from
/// the network.
fn dependencies() -> anyhow::Result<()> {
    let deny = tool("cargo-deny", "0.20.2")?;
    let checks = ["--workspace", "--all-features", "check", "licenses", "bans", "sources"];
    shell::run(command(deny).args(checks))?;
    shell::run(&mut command(tool("cargo-machete", "0.9.2")?))
}

/// Finds misspelt words by a list of common mistakes. It has no dictionary, so it does not take names
/// for mistakes.
const SPELLING: &str = "codespell==2.4.1";
/// Words that codespell wrongly reports: names of types, a field, and deliberate errors in tests.
const NO_MISTAKES: &str = "ser,mape,entires,hiden,instal,tabel,confg";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Check links and spelling instead of building the book
    #[arg(long)]
    pub(crate) check: bool,
}

pub(crate) fn docs(options: &Options) -> anyhow::Result<()> {
    if options.check {
        links()?;
        return spelling();
    }
    build_book()
}

/// Builds docs/book.
pub(crate) fn build_book() -> anyhow::Result<()> {
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
    let interpreter = environment("spelling", &[SPELLING], "codespell_lib")?;
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
