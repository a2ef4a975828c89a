use clap::Args;
use diode_api::ModelSummary;

use super::line;
use crate::output;
use crate::server::ServerArgs;

/// List the models that you have contributed, newest first
#[derive(Debug, Args)]
pub(super) struct Contributed {
    #[command(flatten)]
    server: ServerArgs,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Contributed {
    pub(super) fn run(self) -> anyhow::Result<()> {
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
