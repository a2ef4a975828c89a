use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use diode_api::upload_check::UploadCheck;
use diode_api::{MAX_UPLOAD_BYTES, MAX_UPLOAD_PROBLEMS, MAX_UPLOAD_TIMINGS, Receipt, SetApart};
use diode_core::ids::HardwareSlug;
use diode_core::{Dataset, Invalid};
use serde::Serialize;

use crate::output;
use crate::server::{Client, ServerArgs, TermsArgs, send};

/// Send datasets to a Diode server
///
/// All files are checked here first, and nothing is sent unless each can be; then one that the server refuses does not
/// keep the others. Sending the same file twice changes nothing. Where a server asks for
/// an account, `diode login` gets a token once; DIODE_TOKEN holds one for machines.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode upload --dry-run cpu.msgpack.zst\n  diode upload cpu.msgpack.zst --server http://127.0.0.1:8080"
)]
pub(crate) struct Upload {
    /// Datasets to send, in any format
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Check the files as a server does, and send nothing
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    server: ServerArgs,

    #[command(flatten)]
    terms: TermsArgs,

    /// Print one JSON list of receipts
    #[arg(long)]
    json: bool,
}

impl Upload {
    /// The sending of one file.
    pub(crate) fn of(file: PathBuf, dry_run: bool, server: ServerArgs, terms: TermsArgs) -> Self {
        Self { files: vec![file], dry_run, server, terms, json: false }
    }

    pub(crate) fn run(self) -> anyhow::Result<()> {
        if self.dry_run {
            return self.rehearse_all();
        }
        // Nothing is sent unless all files can be sent.
        let faults: Vec<String> = self
            .files
            .iter()
            .filter_map(|path| checked(path).err())
            .map(|error| format!("{error:#}"))
            .collect();
        let all = self.files.len();
        let nothing = || format!("{} of {all} files cannot be sent, so nothing was sent", faults.len());
        of_all(&faults, all == 1, nothing)?;
        let client = self.terms.contribute(self.server.client()?)?;
        let (mut receipts, mut faults) = (Vec::new(), Vec::new());
        for path in &self.files {
            match self.send(&client, path) {
                Ok(receipt) => receipts.push(receipt),
                Err(error) => {
                    let is_unreachable = error.chain().any(|cause| cause.is::<ureq::Error>());
                    faults.push(format!("{error:#}"));
                    if is_unreachable {
                        break;
                    }
                }
            }
        }
        if self.json {
            output::json(&receipts)?;
        }
        of_all(&faults, all == 1, || format!("{} of {all} files are stored", receipts.len()))
    }

    fn send(&self, client: &Client, path: &Path) -> anyhow::Result<Receipt> {
        let bytes = read(path)?;
        let receipt = send(&client.url("/uploads"), || client.post_file("/uploads", &bytes))
            .with_context(|| format!("cannot upload {}", path.display()))?;
        if !self.json {
            output::text_out(&in_words(path, &receipt))?;
        }
        Ok(receipt)
    }

    /// Checks every file, even if others are faulty.
    fn rehearse_all(&self) -> anyhow::Result<()> {
        let (mut rehearsed, mut faults) = (Vec::new(), Vec::new());
        for path in &self.files {
            let hardware = checked(path)
                .and_then(|datasets| rehearse(&datasets).with_context(|| path.display().to_string()));
            match hardware {
                Ok(hardware) => rehearsed.push(DryRun { file: path, hardware }),
                Err(error) => faults.push(format!("{error:#}")),
            }
        }
        if self.json {
            output::json(&rehearsed)?;
        } else {
            output::text_out(&dry_runs(&rehearsed))?;
        }
        of_all(&faults, true, || format!("{} of {} files cannot be sent", faults.len(), self.files.len()))
    }
}

/// Fails if there are faults. Several stand below `summary`; one may stand alone.
fn of_all(faults: &[String], alone: bool, summary: impl FnOnce() -> String) -> anyhow::Result<()> {
    match faults {
        [] => Ok(()),
        [fault] if alone => bail!("{fault}"),
        _ => bail!("{}:\n  {}", summary(), faults.join("\n  ")),
    }
}

/// The datasets of a file, if a server may take the file.
fn checked(path: &Path) -> anyhow::Result<Vec<Dataset>> {
    let length = fs::metadata(path).with_context(|| unreadable(path))?.len();
    if length > MAX_UPLOAD_BYTES as u64 {
        bail!(
            "{}: {} MiB, expected at most {} MiB; make it smaller with `diode convert` to .msgpack.zst",
            path.display(),
            length >> 20,
            MAX_UPLOAD_BYTES >> 20
        );
    }
    let decoded = diode_formats::decode_within(&read(path)?, MAX_UPLOAD_TIMINGS)
        .with_context(|| path.display().to_string())?;
    let problems = decoded.datasets.iter().map(|dataset| dataset.solutions.len()).sum::<usize>();
    if problems > MAX_UPLOAD_PROBLEMS {
        bail!(
            "{}: {problems} problems, expected at most {MAX_UPLOAD_PROBLEMS} in a file; send several",
            path.display()
        );
    }
    Ok(decoded.datasets)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| unreadable(path))
}

fn unreadable(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

/// What `--dry-run` prints about a file.
#[derive(Serialize)]
struct DryRun<'a> {
    file: &'a Path,
    hardware: Vec<Rehearsed>,
}

fn dry_runs(files: &[DryRun<'_>]) -> String {
    let mut text = String::new();
    for DryRun { file, hardware } in files {
        text += &format!("{}: not sent (--dry-run)\n", file.display());
        for of in hardware {
            text += &format!(
                "  {}: {} problems, {} timings, {} failures\n",
                of.hardware, of.problems, of.timings, of.failures
            );
            for part in &of.set_apart {
                text += &format!(
                    "    {} of them would be set apart, {}: {}\n",
                    part.timings, part.reason, part.example
                );
            }
        }
    }
    text
}

fn in_words(path: &Path, receipt: &Receipt) -> String {
    let path = path.display();
    if receipt.already_stored {
        return format!("{path}: already stored as upload {}\n", receipt.id);
    }
    let mut text = format!(
        "{path}: stored as upload {} ({}): {} new, {} known already\n",
        receipt.id, receipt.format, receipt.new_solutions, receipt.duplicate_solutions
    );
    for hardware in &receipt.hardware {
        text += &format!(
            "  {}: {} problems, {} timings, {} failures\n",
            hardware.slug, hardware.problems, hardware.timings, hardware.failures
        );
    }
    text + &format!("  licence: {}\n", receipt.licence)
}

/// What a file holds for one kind of hardware.
#[derive(Debug, Serialize)]
struct Rehearsed {
    hardware: HardwareSlug,
    problems: usize,
    timings: usize,
    failures: usize,
    /// Timings that a server would not store, by reason.
    set_apart: Vec<SetApart>,
}

/// Judges timings by the facts that come with `diode`. A real server may have facts of more hardware, and may accept
/// simulated times. An error if nothing would be stored.
fn rehearse(datasets: &[Dataset]) -> Result<Vec<Rehearsed>, Invalid> {
    let rehearsed = datasets.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    let apart = rehearsed.iter().flat_map(|of| &of.set_apart).map(|part| part.timings).sum::<u64>();
    if rehearsed.iter().map(|of| of.timings as u64).sum::<u64>() > apart {
        return Ok(rehearsed);
    }
    let given = match rehearsed.iter().find_map(|of| of.set_apart.first()) {
        Some(part) => format!("no time that can be true; {}", part.example),
        None => "no timings at all".to_owned(),
    };
    Err(Invalid::new("upload", given, "a dataset with at least one measured problem"))
}

fn one(dataset: &Dataset) -> Result<Rehearsed, Invalid> {
    let facts = dataset.hardware.listed().and_then(|listed| listed.facts);
    let contents = UploadCheck::default().dataset(dataset, facts.as_ref(), |_| {})?;
    Ok(Rehearsed {
        hardware: dataset.hardware.slug.clone(),
        problems: dataset.solutions.len(),
        timings: dataset.timings(),
        failures: dataset.failures(),
        set_apart: contents.set_apart,
    })
}
