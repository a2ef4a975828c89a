use clap::Args;
use diode_api::{Account, SERVER_HEADER};
use serde::Serialize;

use crate::failure::one_line;
use crate::input::models::shipped_for;
use crate::node::gpus;
use crate::output;
use crate::server::{Client, ServerArgs};

/// Show the version, the GPU, and the model, server and account in use
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode status --server https://diode.example.org")]
pub(crate) struct Status {
    /// Print one JSON document
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

/// Each part is in words for people, and says why if there is none.
#[derive(Serialize)]
struct Report {
    version: &'static str,
    gpu: String,
    model: String,
    server: String,
    account: String,
}

impl Status {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let (gpu, model) = gpu_and_model();
        let (server, account) = server_and_account(&self.server.client()?);
        let report = Report { version: env!("CARGO_PKG_VERSION"), gpu, model, server, account };
        if self.json {
            return output::json(&report);
        }
        let Report { version, gpu, model, server, account } = report;
        let rows = [
            ("Version", version),
            ("GPU", &gpu),
            ("Model", &model),
            ("Server", &server),
            ("Account", &account),
        ];
        let lines = rows.map(|(name, value)| format!("{name:<8} {}\n", output::one_line(value)));
        output::text_out(&lines.concat())
    }
}

fn gpu_and_model() -> (String, String) {
    let none = || "none is taken by itself; name hardware with --hardware, such as nvidia-h200".to_owned();
    match gpus() {
        Err(error) => (format!("none: {}", one_line(&error)), none()),
        Ok(gpus) => match gpus.first() {
            None => ("none: neither nvidia-smi nor HIP lists one".to_owned(), none()),
            Some(gpu) => {
                let more =
                    if gpus.len() > 1 { format!(", the first of {}", gpus.len()) } else { String::new() };
                let named = format!("{} ({}){more}", gpu.hardware.name, gpu.hardware.slug);
                let model = match shipped_for(&gpu.hardware) {
                    Err(error) => format!("none: {}", one_line(&error)),
                    Ok(model) => match &model.metadata().stands_in_from {
                        Some(from) => format!("that of {from} stands in; it comes with diode"),
                        None => format!("that of {}, which comes with diode", gpu.hardware.slug),
                    },
                };
                (named, model)
            }
        },
    }
}

fn server_and_account(client: &Client) -> (String, String) {
    let address = client.address();
    let answer = match client.getting("/terms") {
        Ok(answer) => answer,
        Err(error) => {
            let words =
                format!("{address} cannot be reached ({error}); --server or DIODE_SERVER names another");
            return (words, "unknown".to_owned());
        }
    };
    let version = answer.headers().get(SERVER_HEADER).and_then(|version| version.to_str().ok());
    let Some(version) = version else {
        let words = format!("{address} is no Diode server: it answers {}", answer.status());
        return (words, "unknown".to_owned());
    };
    let account = match client.has_token() {
        false => "none: `diode login` gets a token".to_owned(),
        true => match client.get::<Account>("/account") {
            Ok(account) => account.name.to_string(),
            Err(error) => format!("none: {}", one_line(&error)),
        },
    };
    (format!("{address}, diode-server {version}"), account)
}
