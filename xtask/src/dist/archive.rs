//! Archives that are the same for the same files, and the checksums of a release.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::{Target, VERSION};
use crate::shell::{self, command, output, root};

/// The files that an archive has beside the programs.
const FILES: [&str; 13] = [
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "CHANGELOG.md",
    "packaging/Containerfile",
    "packaging/compose.yaml",
    "packaging/diode-server.service",
    "packaging/diode.toml",
    "packaging/agents/Containerfile.agent",
    "packaging/agents/daemonset.yaml",
    "packaging/agents/diode-agent.service",
    "packaging/agents/diode-agent.slurm",
    "packaging/agents/job.yaml",
];
/// The folder of the released models, which `diode predict` uses.
const MODELS: &str = "trained_models";

/// The name of an archive and of the folder in it.
pub(super) fn name(target: Target) -> String {
    format!("diode-{VERSION}-{}-linux", target.name())
}

/// Writes `diode-VERSION-MACHINE-linux.tar.gz`.
pub(super) fn pack(target: Target, programs: &[PathBuf], into: &Path) -> anyhow::Result<()> {
    let staging = tempfile::tempdir()?;
    let folder = staging.path().join(name(target));
    std::fs::create_dir(&folder)?;
    std::fs::create_dir(folder.join("models"))?;
    let files = FILES.iter().map(|file| root().join(file));
    for file in programs.iter().cloned().chain(files) {
        copy(&file, &folder)?;
    }
    for model in models()? {
        copy(&model, &folder.join("models"))?;
    }
    // Names in a fixed order, one owner, and the time of the commit make the archive reproducible.
    let archive = into.join(format!("{}.tar.gz", name(target)));
    shell::run(
        command("tar")
            .args(["--create", "--use-compress-program=gzip --best --no-name", "--sort=name"])
            .args(["--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"])
            .arg(format!("--mtime=@{}", time_of_commit()?))
            .arg("--directory")
            .arg(staging.path())
            .arg("--file")
            .arg(&archive)
            .arg(name(target)),
    )
}

fn copy(file: &Path, folder: &Path) -> anyhow::Result<()> {
    let name = file.file_name().context("a file has a name")?;
    std::fs::copy(file, folder.join(name)).with_context(|| format!("cannot copy {}", file.display()))?;
    Ok(())
}

/// Every `*.safetensors` of the repository.
fn models() -> anyhow::Result<Vec<PathBuf>> {
    let listed = output(command("git").args(["ls-files", &format!("{MODELS}/*.safetensors")]))?;
    Ok(listed.lines().map(|file| root().join(file)).collect())
}

/// The time of the commit, in seconds since 1970. No file of a release is younger.
pub(crate) fn time_of_commit() -> anyhow::Result<String> {
    let time = output(command("git").args(["log", "-1", "--format=%ct"]))?;
    Ok(time.trim().to_owned())
}

/// Writes `SHA256SUMS` for all files of a folder. `sha256sum --check` reads it.
pub(super) fn checksums(folder: &Path) -> anyhow::Result<()> {
    let mut names: Vec<_> = std::fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<Result<_, _>>()?;
    names.sort();
    let sums = output(command("sha256sum").args(names).current_dir(folder))?;
    #[allow(clippy::disallowed_methods, reason = "a broken write fails the command")]
    std::fs::write(folder.join("SHA256SUMS"), sums)?;
    Ok(())
}
