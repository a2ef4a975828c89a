use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use diode_core::api::{MAX_UPLOAD_BYTES, Receipt};

use crate::output;
use crate::server::{Client, ServerArgs, TermsArgs, judge, refusal, retry_after, wait_for};

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

/// Attempts while the server cannot be reached or is busy.
const ATTEMPTS: u32 = 4;
/// Before the second attempt; twice as long before each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

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
            let receipt =
                send(&client, bytes).with_context(|| format!("cannot upload {}", path.display()))?;
            if !self.json {
                output::text_out(&in_words(path, &receipt))?;
            }
            receipts.push(receipt);
        }
        if self.json { output::json(&receipts) } else { Ok(()) }
    }
}

/// Sends until the server accepts or refuses. Repeating is safe: the server knows an upload
/// by its digest.
fn send(client: &Client, bytes: &[u8]) -> anyhow::Result<Receipt> {
    let url = client.url("/uploads");
    let mut pause = FIRST_PAUSE;
    let mut attempt = 1;
    loop {
        let (trouble, asked) = match client.post_file("/uploads", bytes) {
            Ok(response) if !matches!(response.status().as_u16(), 429 | 502 | 503 | 504) => {
                return judge(response);
            }
            Ok(mut response) => {
                let asked = retry_after(&response);
                (refusal(&mut response).1, asked)
            }
            Err(error) if is_passing(&error) => {
                let words = format!("cannot reach {url}; is the server running?");
                (anyhow::Error::new(error).context(words), None)
            }
            Err(error) => return Err(error).with_context(|| format!("cannot send to {url}")),
        };
        if attempt == ATTEMPTS {
            return Err(trouble.context(format!("gave up after {ATTEMPTS} attempts")));
        }
        let wait = wait_for(asked, pause);
        say!("{trouble:#}; trying again in {:.1} s", wait.as_secs_f64());
        thread::sleep(wait);
        pause *= 2;
        attempt += 1;
    }
}

/// Whether another attempt may succeed.
fn is_passing(error: &ureq::Error) -> bool {
    matches!(error, ureq::Error::Io(_) | ureq::Error::ConnectionFailed | ureq::Error::Timeout(_))
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
