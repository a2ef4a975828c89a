//! Commands about snapshots, for the operator of the server.

use anyhow::bail;
use clap::Subcommand;
use diode_api::{JobKind, JobRequest, NewSnapshot, Reason, SnapshotName, SnapshotSummary};
use diode_core::Heuristic;
use diode_core::ids::HardwareSlug;

use crate::backend::Backend;
use crate::settings::Data;
use crate::store::{MAX_WAITING_JOBS, Now, Queued};
use crate::trainings;

/// The name under which the log keeps these actions.
const WHO: &str = "command line";

/// How many snapshots a list has at most. The newest are listed.
const MAX_LISTED: u32 = 1000;

#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// List the snapshots, newest first, with their digests and whether their files are there
    Snapshots {
        /// Only those of this hardware, such as nvidia-h200
        #[arg(long, value_name = "SLUG")]
        hardware: Option<HardwareSlug>,
        #[command(flatten)]
        data: Data,
    },
    /// Queue a job that freezes everything that counts of a hardware; a worker makes it
    Snapshot {
        /// Such as nvidia-h200
        hardware: HardwareSlug,
        /// Why; it is written down
        #[arg(long, value_name = "TEXT")]
        reason: Reason,
        #[command(flatten)]
        data: Data,
    },
    /// Remove the files of a snapshot for good; its name, its digest and the reason stay
    RemoveSnapshot {
        /// Such as nvidia-h200@3
        name: SnapshotName,
        /// Why; it is written down, and everybody can read it
        #[arg(long, value_name = "TEXT")]
        reason: Reason,
        #[command(flatten)]
        data: Data,
    },
}

impl SnapshotCommand {
    /// Runs the command. Returns the text to print.
    pub async fn run(self) -> anyhow::Result<String> {
        let (Self::Snapshots { data, .. } | Self::Snapshot { data, .. } | Self::RemoveSnapshot { data, .. }) =
            &self;
        let backend = Backend::open_existing(data).await?;
        let outcome = self.answer(&backend).await;
        backend.store.close().await;
        outcome
    }

    async fn answer(self, backend: &Backend) -> anyhow::Result<String> {
        let (store, now) = (backend.store.as_ref(), Now::read());
        match self {
            Self::Snapshots { hardware, .. } => {
                Ok(store.snapshots(hardware.as_ref(), MAX_LISTED).await?.iter().map(line).collect())
            }
            Self::Snapshot { hardware, reason, .. } => {
                let job = JobRequest::new(JobKind::Snapshot, Heuristic::Matmul, hardware.clone());
                if store.hardware(&hardware).await?.is_none() {
                    bail!("no hardware `{hardware}`");
                }
                let job = trainings::job(job, false, now)?;
                let request = NewSnapshot { hardware, reason };
                match store.queue_snapshot(&job, &request, None, WHO, now).await? {
                    Queued::Yes => Ok(format!("queued as job {}\n", job.id)),
                    Queued::Full | Queued::TooManyOwn => {
                        bail!("{MAX_WAITING_JOBS} jobs wait already, the most there may be; try again later")
                    }
                }
            }
            Self::RemoveSnapshot { name, reason, .. } => {
                let Some(files) = store.remove_snapshot(&name, &reason, WHO, now).await? else {
                    bail!("no snapshot `{name}` that has files; `diode-server admin snapshots` lists them");
                };
                let removed = files.len();
                backend.forget(files).await?;
                Ok(format!("{removed} files of {name} removed\n"))
            }
        }
    }
}

fn line(snapshot: &SnapshotSummary) -> String {
    let SnapshotSummary { name, digest, created_at, problems, timings, bytes, state, .. } = snapshot;
    let withdrawn = match snapshot.withdrawn_uploads {
        0 => String::new(),
        number => format!(", {number} uploads withdrawn"),
    };
    let reason = if snapshot.reason.is_empty() { String::new() } else { format!(": {}", snapshot.reason) };
    format!(
        "{name} {created_at} {digest} {problems} problems {timings} timings {bytes} bytes {state}{withdrawn}{reason}\n"
    )
}
