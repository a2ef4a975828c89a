use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use diode_workloads::file_check::{Judged, Reader, Severity, check_folder};
use diode_workloads::file_names::{Consumer, FileName};
use diode_workloads::published::{Published, PublishedFile};
use serde::Serialize;

use crate::failure::Usage;
use crate::input::published;
use crate::output::{self, count, files};

/// Read the tuned files that a release of vLLM or SGLang ships
///
/// They become baselines of this name and release, which `diode predict` sets beside the default and the pick. A release that
/// was read before is replaced.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode import vllm /opt/venv/lib/python3.12/site-packages\n  diode import sglang ./sglang --release 0.5.23 --device NVIDIA_H200"
)]
pub(crate) struct Import {
    /// Whose files they are: vllm or sglang
    #[arg(value_name = "PROJECT")]
    project: Consumer,

    /// Folder of the installed package, or the folder that holds it
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// The release, such as 0.33.0 [default: that of the package's metadata beside the folder]
    #[arg(long, value_name = "VERSION")]
    release: Option<String>,

    /// List each file for this device, as file names call it, such as NVIDIA_H200
    #[arg(long, value_name = "NAME")]
    device: Option<String>,

    /// File to write [default: in diode/published in XDG_DATA_HOME or ~/.local/share, where other commands look]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace a file that exists
    #[arg(long, requires = "output")]
    force: bool,

    /// Print one JSON document with every file
    #[arg(long)]
    json: bool,
}

/// What a file covers.
#[derive(Serialize)]
struct Row {
    file: String,
    device: String,
    subject: String,
    batches: Vec<u64>,
    /// The findings that are worse than a note.
    findings: Vec<String>,
}

impl Import {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let package = published::package_of(self.project, &self.folder)?;
        let version = self.version(&package)?;
        let output = match &self.output {
            Some(path) => {
                files::check_may_write(path, self.force)?;
                path.clone()
            }
            None => published::path(self.project, &version)?,
        };
        let (read, refused) = published::read_package(self.project, &package)?;
        let rows = self.rows(&read);
        for (path, why) in &refused {
            say!("left out {path}: {why}");
        }
        let release = Published::new(self.project, version, read);
        let text = release.to_text().context("cannot encode the files")?;
        // A release that was read before is replaced in the folder of releases.
        files::write_checked(&output, text.as_bytes(), self.force || self.output.is_none())?;
        if self.json {
            output::json(&serde_json::json!({
                "project": self.project, "version": release.version, "output": output, "files": rows,
                "left_out": refused,
            }))?;
        } else {
            let mut text = self.in_words(&release, &rows);
            let _ = writeln!(text, "\nWrote {} to {}.", count(release.files.len(), "file"), output.display());
            output::text_out(&text)?;
        }
        match refused.len() {
            0 => Ok(()),
            left => bail!("{} could not be read", count(left, "file")),
        }
    }

    fn version(&self, package: &Path) -> anyhow::Result<String> {
        let Some(version) = &self.release else {
            return published::version_of(self.project, package);
        };
        Usage::refuse_if(
            !published::is_version(version),
            format!("--release: got `{version:.64}`, expected a version such as 0.33.0"),
        )?;
        Ok(version.clone())
    }

    fn rows(&self, read: &[PublishedFile]) -> Vec<Row> {
        let texts: Vec<(String, String)> =
            read.iter().map(|file| (format!("{}/{}", file.folder, file.name), file.body.to_text())).collect();
        let judged: Vec<Judged<'_>> = texts.iter().map(|(path, text)| Judged { path, text }).collect();
        let findings = check_folder(&judged, Reader { consumer: self.project, hardware: None });
        let mut by_file: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for finding in findings.iter().filter(|finding| finding.severity < Severity::Note) {
            let text = format!("{}: {}", finding.severity, finding.what);
            by_file.entry(&finding.file).or_default().push(text);
        }
        let row = |(file, (path, _)): (&PublishedFile, &(String, String))| Row {
            file: path.clone(),
            device: FileName::parse(&file.name)
                .ok()
                .and_then(|name| name.device().map(str::to_owned))
                .unwrap_or_default(),
            subject: file.subject(),
            batches: file.body.entries().map(|(batch, _)| batch).collect(),
            findings: by_file.remove(path.as_str()).unwrap_or_default(),
        };
        let mut rows: Vec<Row> = read.iter().zip(&texts).map(row).collect();
        rows.sort_by(|a, b| (&a.device, &a.file).cmp(&(&b.device, &b.file)));
        rows
    }

    /// A line for each device, or for each file of the device that was asked for; then what is wrong.
    fn in_words(&self, release: &Published, rows: &[Row]) -> String {
        let mut text = format!("{release}: tuned files\n\n");
        let asked = |row: &&Row| self.device.as_ref().is_none_or(|device| row.device == *device);
        let range = |row: &Row| {
            let (first, last) = (row.batches.iter().min(), row.batches.iter().max());
            let words =
                first.zip(last).map(|(first, last)| format!("{} from {first} to {last}", row.batches.len()));
            words.unwrap_or_default()
        };
        if self.device.is_some() {
            let cells: Vec<Vec<String>> = rows
                .iter()
                .filter(asked)
                .map(|row| vec![row.subject.clone(), range(row), row.file.clone()])
                .collect();
            text += &output::table(&["for", "batch sizes", "file"], &cells, 3);
        } else {
            let bad = |device: &str| {
                rows.iter().filter(|row| row.device == device && !row.findings.is_empty()).count()
            };
            let cells: Vec<Vec<String>> = release
                .devices()
                .into_iter()
                .map(|(device, files)| {
                    let bad = bad(&device).to_string();
                    let device = if device.is_empty() { "(no device)".to_owned() } else { device };
                    vec![device, files.to_string(), bad]
                })
                .collect();
            text += &output::table(&["device", "files", "with findings"], &cells, 1);
        }
        let mut kinds: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
        for row in rows.iter().filter(asked) {
            for finding in &row.findings {
                kinds.entry(finding).or_insert((0, &row.file)).0 += 1;
            }
        }
        if !kinds.is_empty() {
            text += "\nFindings:\n";
        }
        for (finding, (files, first)) in kinds {
            let _ = match files {
                1 => writeln!(text, "  {finding} ({first})"),
                _ => writeln!(text, "  {finding} ({files} files, such as {first})"),
            };
        }
        text
    }
}
