use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use diode_core::api::{MAX_UPLOAD_BYTES, Receipt};

use crate::output;
use crate::server::{ServerArgs, TermsArgs, send};

/// Send datasets to a Diode server
///
/// Each file is checked here first. Sending the same file twice changes nothing. Where a server asks for
/// an account, `diode login` gets a token once; DIODE_TOKEN holds one for machines.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode upload cpu.msgpack.zst --server http://127.0.0.1:8080")]
pub(crate) struct Upload {
    /// Datasets to send, in any format
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    server: ServerArgs,

    #[command(flatten)]
    terms: TermsArgs,

    /// Print one JSON list of receipts
    #[arg(long)]
    json: bool,
}

impl Upload {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut uploads = Vec::new();
        for path in &self.files {
            let unreadable = || format!("cannot read {}", path.display());
            let length = fs::metadata(path).with_context(unreadable)?.len();
            if length > MAX_UPLOAD_BYTES as u64 {
                bail!(
                    "{}: {} MiB, expected at most {} MiB; make it smaller with `diode convert` to .msgpack.zst",
                    path.display(),
                    length >> 20,
                    MAX_UPLOAD_BYTES >> 20
                );
            }
            let bytes = fs::read(path).with_context(unreadable)?;
            diode_formats::decode(&bytes).with_context(|| path.display().to_string())?;
            uploads.push((path, bytes));
        }
        let client = self.terms.contribute(self.server.client()?)?;
        let mut receipts = Vec::new();
        for (path, bytes) in &uploads {
            let receipt: Receipt = send(&client.url("/uploads"), || client.post_file("/uploads", bytes))
                .with_context(|| format!("cannot upload {}", path.display()))?;
            if !self.json {
                output::text_out(&in_words(path, &receipt))?;
            }
            receipts.push(receipt);
        }
        if self.json { output::json(&receipts) } else { Ok(()) }
    }
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
