use std::fmt::Write as _;

use clap::Args;
use diode_api::SnapshotSummary;
use diode_core::ids::HardwareSlug;

use crate::output;
use crate::server::ServerArgs;

/// List a server's snapshots, newest first
#[derive(Debug, Args)]
pub(super) struct List {
    /// Only those of this hardware, such as nvidia-h200
    #[arg(long, value_name = "SLUG")]
    hardware: Option<HardwareSlug>,

    #[command(flatten)]
    server: ServerArgs,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) fn run(self) -> anyhow::Result<()> {
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
