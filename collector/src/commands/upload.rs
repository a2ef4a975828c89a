use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use diode_core::api::{ApiError, MAX_UPLOAD_BYTES, Receipt};

use crate::failure::Usage;
use crate::output;

/// Send datasets to a Diode server
///
/// Each file is checked here first. Sending the same file twice changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode upload cpu.msgpack.zst --server http://127.0.0.1:8080")]
pub(crate) struct Upload {
    /// Datasets to send, in any format
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Address of the server
    #[arg(long, env = "DIODE_SERVER", default_value = "http://127.0.0.1:8080", value_name = "URL")]
    server: String,

    /// Print one JSON list of receipts
    #[arg(long)]
    json: bool,
}

/// Attempts while the server cannot be reached or is busy.
const ATTEMPTS: u32 = 4;
/// Before the second attempt; twice as long before each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// A large upload over a slow line, and the server storing it.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Long enough for any network, short enough to wait for.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

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
        if !(self.server.starts_with("http://") || self.server.starts_with("https://")) {
            return Err(Usage::new(format!(
                "--server: got `{}`, expected an address that begins with http:// or https://",
                self.server
            ))
            .into());
        }
        let url = format!("{}/api/v1/uploads", self.server.trim_end_matches('/'));
        let mut receipts = Vec::new();
        for (path, bytes) in &uploads {
            let receipt = send(&url, bytes).with_context(|| format!("cannot upload {}", path.display()))?;
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
fn send(url: &str, bytes: &[u8]) -> anyhow::Result<Receipt> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_global(Some(TIMEOUT))
        .build()
        .into();
    let mut pause = FIRST_PAUSE;
    let mut attempt = 1;
    loop {
        let trouble = match agent.post(url).content_type("application/octet-stream").send(bytes) {
            Ok(response) if !matches!(response.status().as_u16(), 429 | 502 | 503 | 504) => {
                return judge(response);
            }
            Ok(response) => judge(response).err().unwrap_or_else(|| anyhow::anyhow!("the server is busy")),
            Err(error) if is_passing(&error) => {
                anyhow::Error::new(error).context(format!("cannot reach {url}; is the server running?"))
            }
            Err(error) => return Err(error).with_context(|| format!("cannot send to {url}")),
        };
        if attempt == ATTEMPTS {
            return Err(trouble.context(format!("gave up after {ATTEMPTS} attempts")));
        }
        say!("{trouble:#}; trying again in {:.1} s", pause.as_secs_f64());
        thread::sleep(pause);
        pause *= 2;
        attempt += 1;
    }
}

/// Whether the next attempt may fare better.
fn is_passing(error: &ureq::Error) -> bool {
    matches!(error, ureq::Error::Io(_) | ureq::Error::ConnectionFailed | ureq::Error::Timeout(_))
}

fn judge(mut response: ureq::http::Response<ureq::Body>) -> anyhow::Result<Receipt> {
    let status = response.status();
    let body = response.body_mut();
    if status.is_success() {
        return body.read_json().context("the server's receipt is not understood; is it a Diode server?");
    }
    match body.read_json::<ApiError>() {
        Ok(error) => bail!("the server refused it: {} ({}, {})", error.message, error.code, status.as_u16()),
        Err(_) => bail!("the server answered {status}; is it a Diode server?"),
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
    text
}
