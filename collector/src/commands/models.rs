use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use diode_api::{Contribution, Licence, ModelDescription, ModelSummary};
use diode_core::ids::{Digest, HardwareSlug, ModelId};
use diode_model::contribution::examine;
use serde::Serialize;

use crate::output::{self, count};
use crate::server::{ServerArgs, send};

/// Contribute models to a server, and see what becomes of them
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode models contribute mine.safetensors --description 'trained on 900 decode shapes' \
                  --licence 'MIT OR Apache-2.0' --server https://diode.example.org\n  \
                  diode models contributed --server https://diode.example.org"
)]
pub(crate) struct Models {
    #[command(subcommand)]
    command: ModelsCommand,
}

#[derive(Debug, Subcommand)]
enum ModelsCommand {
    Contribute(Contribute),
    Contributed(Contributed),
}

impl Models {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.command {
            ModelsCommand::Contribute(command) => command.run(),
            ModelsCommand::Contributed(command) => command.run(),
        }
    }
}

/// The state of a contributed model in one line: `0123456789abcdef  nvidia-h200  evaluated: …`.
fn line(model: &ModelSummary, about: &Contribution) -> String {
    let found = match &about.figures {
        Some(figures) => figures.why.as_str(),
        None => "not judged yet",
    };
    let said = if about.reason.is_empty() { String::new() } else { format!("; {}", about.reason) };
    format!("{}  {}  {}{said}  ({found})\n", model.id, model.hardware, about.state)
}

/// Send a model of `diode train` to a server, which judges it beside its own
///
/// The file is checked here first. The server shows a model to nobody else until an administrator accepts it;
/// `diode models contributed` says what has become of it. Sending the same file twice changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode train --data timings/ --without-kept --model mine.safetensors\n  \
                  diode models contribute mine.safetensors --description 'trained on 900 decode shapes' \
                  --licence 'MIT OR Apache-2.0' --server https://diode.example.org")]
struct Contribute {
    /// Model to send
    #[arg(value_name = "FILE")]
    model: PathBuf,

    /// What others should know of it, in a line
    #[arg(long, value_name = "TEXT")]
    description: ModelDescription,

    /// The terms under which others may use it, such as 'MIT OR Apache-2.0' (an SPDX expression)
    #[arg(long, value_name = "SPDX")]
    licence: Licence,

    /// Check the file as the server does, and send nothing
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON document
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

/// What `--dry-run --json` prints.
#[derive(Serialize)]
struct Checked<'a> {
    id: ModelId,
    digest: Digest,
    bytes: usize,
    hardware: &'a HardwareSlug,
    training_problems: u64,
    without_kept: bool,
}

impl Contribute {
    fn run(self) -> anyhow::Result<()> {
        let shown = self.model.display();
        let bytes = fs::read(&self.model).with_context(|| format!("cannot read {shown}"))?;
        let model = examine(&bytes).with_context(|| shown.to_string())?;
        let about = model.metadata();
        if !about.training.without_kept {
            say!(
                "note: {shown} has learnt problems that servers keep for judging, so its figures there are too good, \
                 and say so; `diode train --without-kept` leaves them out"
            );
        }
        if self.dry_run {
            let checked = Checked {
                id: ModelId::of(&bytes),
                digest: Digest::of(&bytes),
                bytes: bytes.len(),
                hardware: &about.hardware.slug,
                training_problems: about.training.problems,
                without_kept: about.training.without_kept,
            };
            if self.json {
                return output::json(&checked);
            }
            let problems = count(about.training.problems as usize, "problem");
            let (id, slug) = (&checked.id, checked.hardware);
            return output::text_out(&format!(
                "{shown}: model {id} of {slug}, trained on {problems}; nothing was sent\n"
            ));
        }
        let client = self.server.client()?;
        let query = [("description", self.description.as_str()), ("licence", self.licence.as_str())];
        let post = || client.post_bytes("/models", &query, bytes.len() as u64, &*bytes);
        let model: ModelSummary =
            send(&client.url("/models"), post).context("cannot contribute the model")?;
        if self.json {
            return output::json(&model);
        }
        let about =
            model.contribution.as_ref().context("the answer is not understood; is it a Diode server?")?;
        output::text_out(&line(&model, about))
    }
}

/// List the models that you have contributed, newest first
#[derive(Debug, Args)]
struct Contributed {
    /// Print one JSON document
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

impl Contributed {
    fn run(self) -> anyhow::Result<()> {
        let client = self.server.client()?;
        let listed: Vec<ModelSummary> = client.get("/contributions")?;
        if self.json {
            return output::json(&listed);
        }
        if listed.is_empty() {
            say!("you have contributed no models to {}", client.address());
        }
        let lines = listed.iter().filter_map(|model| Some(line(model, model.contribution.as_ref()?)));
        output::text_out(&lines.collect::<String>())
    }
}
