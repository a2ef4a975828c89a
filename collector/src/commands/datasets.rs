use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::{Args, Subcommand};
use diode_api::{MANIFEST, SnapshotDetail, SnapshotManifest, SnapshotName, SnapshotState, SnapshotSummary};
use diode_core::ids::{Digest, HardwareSlug};
use diode_formats::Format;
use serde::Serialize;

use crate::failure::Usage;
use crate::output::{self, count};
use crate::server::{Client, Download, ServerArgs};

/// Datasets of a server that no longer change: list, download and cite them
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode datasets list --server https://diode.example.org\n  \
                        diode datasets pull nvidia-h200@3 --format parquet --server https://diode.example.org\n  \
                        diode datasets cite nvidia-h200@3 --bibtex --server https://diode.example.org")]
pub(crate) struct Datasets {
    #[command(subcommand)]
    command: DatasetsCommand,
}

#[derive(Debug, Subcommand)]
enum DatasetsCommand {
    List(List),
    Pull(Pull),
    Cite(Cite),
}

impl Datasets {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.command {
            DatasetsCommand::List(command) => command.run(),
            DatasetsCommand::Pull(command) => command.run(),
            DatasetsCommand::Cite(command) => command.run(),
        }
    }
}

/// The snapshot with this name. For a name without a version, the newest snapshot of that hardware.
fn find(client: &Client, name: &str) -> anyhow::Result<SnapshotDetail> {
    let name = if name.contains('@') {
        name.parse::<SnapshotName>().map_err(Usage::new)?
    } else {
        let slug: HardwareSlug = name.parse().map_err(Usage::new)?;
        let listed: Vec<SnapshotSummary> = client.get(&format!("/snapshots?hardware={slug}"))?;
        let newest = listed.into_iter().find(|snapshot| snapshot.state == SnapshotState::Whole);
        newest.ok_or_else(|| anyhow::anyhow!("{} has no snapshot of {slug}", client.address()))?.name
    };
    client.get(&format!("/snapshots/{name}"))
}

/// List a server's snapshots, newest first
#[derive(Debug, Args)]
struct List {
    /// Only those of this hardware, such as nvidia-h200
    #[arg(long, value_name = "SLUG")]
    hardware: Option<HardwareSlug>,

    /// Print one JSON document
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

impl List {
    fn run(self) -> anyhow::Result<()> {
        let client = self.server.client()?;
        let query = self.hardware.map_or_else(String::new, |slug| format!("?hardware={slug}"));
        let listed: Vec<SnapshotSummary> = client.get(&format!("/snapshots{query}"))?;
        if self.json {
            return output::json(&listed);
        }
        if listed.is_empty() {
            say!("{} has no snapshots", client.address());
        }
        let mut text = String::new();
        for SnapshotSummary { name, created_at, problems, timings, bytes, state, reason, .. } in &listed {
            let mib = *bytes as f64 / f64::from(1 << 20);
            let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{name}  {created_at}  {problems} problems  {timings} timings  {mib:.1} MiB  {state}{why}"
            );
        }
        output::text_out(&text)
    }
}

/// Download a snapshot, with its manifest
///
/// A download that broke off goes on where it was. Every file is compared with the digest in the manifest,
/// and the manifest with the snapshot's digest: give --digest to have it compared with the one you know.
#[derive(Debug, Args)]
struct Pull {
    /// Such as nvidia-h200@3; nvidia-h200 is its newest
    name: String,

    /// Which files: msgpack.zst, parquet, csv, msgpack or json
    #[arg(long, default_value = "msgpack.zst", value_parser = format, value_name = "ENDING")]
    format: Format,

    /// The SHA-256 of the manifest, as a citation has it; another one is refused
    #[arg(long, value_name = "SHA256")]
    digest: Option<Digest>,

    /// Folder to write to [default: the current one]
    #[arg(long = "output", alias = "out", value_name = "FOLDER")]
    out: Option<PathBuf>,

    /// Print one JSON document
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

fn format(text: &str) -> Result<Format, String> {
    let found = Format::ALL.into_iter().find(|format| format.ending().strip_prefix('.') == Some(text));
    found.ok_or_else(|| format!("got `{text}`, expected msgpack.zst, parquet, csv, msgpack or json"))
}

/// What `--json` prints.
#[derive(Serialize)]
struct Pulled<'a> {
    snapshot: &'a SnapshotSummary,
    manifest: &'a Path,
    files: &'a [PathBuf],
}

impl Pull {
    fn run(self) -> anyhow::Result<()> {
        let client = self.server.client()?;
        let found = find(&client, &self.name)?;
        let snapshot = &found.summary;
        let name = &snapshot.name;
        if let Some(expected) = self.digest.as_ref().filter(|expected| **expected != snapshot.digest) {
            bail!("{name}: the server's has the digest {}, expected {expected}", snapshot.digest);
        }
        if snapshot.state == SnapshotState::Removed {
            bail!("{name}: its files were removed: {}", snapshot.reason);
        }
        if snapshot.withdrawn_uploads > 0 {
            say!(
                "warning: {} of {} in {name} no longer count on the server; the snapshot is as it was",
                snapshot.withdrawn_uploads,
                count(snapshot.uploads as usize, "upload")
            );
        }
        let folder = self.out.unwrap_or_default();
        if !folder.as_os_str().is_empty() {
            fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let (path, manifest) = manifest(&client, &found, &folder)?;
        let files: Vec<_> =
            manifest.files.iter().filter(|file| file.format == self.format.as_str()).collect();
        if files.is_empty() {
            let absent = manifest.absent.iter().find(|absent| absent.format == self.format.as_str());
            let why = absent.map_or("", |absent| absent.reason.as_str());
            bail!("{name} has no {} file: {why}", self.format.ending());
        }
        let mut written = Vec::with_capacity(files.len());
        for file in files {
            let to = folder.join(plain(&file.name)?);
            let path = format!("/snapshots/{name}/files/{}", file.name);
            let download = Download { path: &path, bytes: file.bytes, sha256: &file.sha256, to: &to };
            download.fetch(&client)?;
            written.push(to);
        }
        say!(
            "{name} of {}: {}, {}, licence {}, SHA-256 {}",
            manifest.created_at,
            count(manifest.problems as usize, "problem"),
            count(manifest.timings as usize, "timing"),
            manifest.licence,
            snapshot.digest
        );
        if self.json {
            return output::json(&Pulled { snapshot, manifest: &path, files: &written });
        }
        let line = |path: &PathBuf| format!("{}\n", path.display());
        output::text_out(&written.iter().chain([&path]).map(line).collect::<String>())
    }
}

/// Downloads the manifest and checks it against the snapshot's digest.
fn manifest(
    client: &Client,
    found: &SnapshotDetail,
    folder: &Path,
) -> anyhow::Result<(PathBuf, SnapshotManifest)> {
    let SnapshotSummary { name, digest, .. } = &found.summary;
    let listed = found.files.iter().find(|file| file.name == MANIFEST);
    let bytes = listed.with_context(|| format!("the server lists no {MANIFEST} of {name}"))?.bytes;
    let path = folder.join(format!("{name}-{MANIFEST}"));
    let from = format!("/snapshots/{name}/files/{MANIFEST}");
    Download { path: &from, bytes, sha256: digest, to: &path }.fetch(client)?;
    let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let manifest: SnapshotManifest = serde_json::from_slice(&text)
        .with_context(|| format!("{}: not the manifest of a snapshot", path.display()))?;
    ensure!(
        manifest.name == *name,
        "{}: got the manifest of {}, expected that of {name}",
        path.display(),
        manifest.name
    );
    Ok((path, manifest))
}

/// A file name that cannot lead out of its folder, whoever wrote the manifest.
fn plain(name: &str) -> anyhow::Result<&str> {
    let is_plain = !name.starts_with('.')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'@' | b'_'));
    ensure!(is_plain && !name.is_empty(), "the manifest names a file `{name}`, expected a plain name");
    Ok(name)
}

/// Print how to cite a snapshot
#[derive(Debug, Args)]
struct Cite {
    /// Such as nvidia-h200@3; nvidia-h200 is its newest
    name: String,

    /// For BibTeX
    #[arg(long)]
    bibtex: bool,

    /// Print one JSON document
    #[arg(long, conflicts_with = "bibtex")]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

impl Cite {
    fn run(self) -> anyhow::Result<()> {
        let citation = find(&self.server.client()?, &self.name)?.citation;
        if self.json {
            return output::json(&citation);
        }
        output::text_out(&if self.bibtex { citation.bibtex } else { format!("{}\n", citation.text) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_cannot_name_files_elsewhere() {
        assert_eq!(plain("nvidia-h200@3-part-1.msgpack.zst").unwrap(), "nvidia-h200@3-part-1.msgpack.zst");
        for wrong in ["", "..", "../x", "/etc/x", "a/b", "a\\b", ".x", "c:x"] {
            assert!(plain(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn files_are_asked_for_by_their_ending() {
        assert_eq!(format("parquet"), Ok(Format::Parquet));
        assert_eq!(format("msgpack.zst"), Ok(Format::Columnar));
        assert!(format("xml").unwrap_err().contains("parquet"));
    }
}
