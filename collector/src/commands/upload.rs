use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use diode_api::upload_check::UploadCheck;
use diode_api::{MAX_UPLOAD_BYTES, MAX_UPLOAD_PROBLEMS, MAX_UPLOAD_TIMINGS, Receipt, SetApart};
use diode_core::ids::HardwareSlug;
use diode_core::{Dataset, Invalid};
use diode_formats::Format;
use serde::Serialize;

use crate::input::datasets;
use crate::output::{self, count};
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

    /// Print one JSON list of receipts
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,

    #[command(flatten)]
    terms: TermsArgs,
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
        let bytes = content(path)?;
        let receipt =
            send(&client.url("/uploads"), || client.post_bytes("/uploads", &[], bytes.len() as u64, &*bytes))
                .with_context(|| format!("cannot upload {}", path.display()))?;
        if !self.json {
            output::text_out(&in_words(path, &receipt, client))?;
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
    let decoded = diode_formats::decode_within(&content(path)?, MAX_UPLOAD_TIMINGS)
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

/// What is sent of a file: its bytes, or the same as a columnar file where it is CSV or Parquet, which no server takes.
fn content(path: &Path) -> anyhow::Result<Vec<u8>> {
    let too_long = |length: u64| {
        anyhow::anyhow!(
            "{}: {} MiB, expected at most {} MiB; make it smaller with `diode convert` to .msgpack.zst",
            path.display(),
            length >> 20,
            MAX_UPLOAD_BYTES >> 20
        )
    };
    let most = MAX_UPLOAD_BYTES as u64;
    if !diode_formats::may_travel(&diode_formats::read_head(path)?) {
        let decoded = datasets::read_files(&[path.to_owned()])?.swap_remove(0);
        let bytes = diode_formats::encode(Format::Columnar, &decoded.datasets)?;
        return if bytes.len() as u64 > most { Err(too_long(bytes.len() as u64)) } else { Ok(bytes) };
    }
    let length = fs::metadata(path).with_context(|| unreadable(path))?.len();
    if length > most {
        return Err(too_long(length));
    }
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
            text += &format!("  {}: {}\n", of.hardware, counted(of.problems, of.timings, of.failures));
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

fn counted(problems: usize, timings: usize, failures: usize) -> String {
    [(problems, "problem"), (timings, "timing"), (failures, "failure")]
        .map(|(number, noun)| count(number, noun))
        .join(", ")
}

fn in_words(path: &Path, receipt: &Receipt, client: &Client) -> String {
    let path = path.display();
    let page = format!("  {}/uploads/{}\n", client.address(), receipt.id);
    if receipt.already_stored {
        return format!("{path}: already stored as upload {}\n{page}", receipt.id);
    }
    let mut text = format!(
        "{path}: stored as upload {} ({}): {} new, {} known already\n",
        receipt.id, receipt.format, receipt.new_solutions, receipt.duplicate_solutions
    );
    for hardware in &receipt.hardware {
        text += &format!(
            "  {}: {}\n",
            hardware.slug,
            counted(hardware.problems as usize, hardware.timings as usize, hardware.failures as usize)
        );
    }
    text + &format!("  licence: {}\n{page}", receipt.licence)
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
