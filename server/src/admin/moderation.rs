//! Commands about uploads, for the operator of the server.

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use diode_api::{
    HardwareConfirmation, HardwareMerge, Moderation, ModerationAction, ModerationSubject, Reason, Receipt,
    Standing,
};
use diode_core::ids::{AccountName, AgentId, HardwareSlug, UploadId};

use crate::backend::Backend;
use crate::confirming::confirm;
use crate::settings::Data;
use crate::store::{Now, UploadFilter};

/// The name under which the log keeps these actions.
const WHO: &str = "command line";

/// How many lines a list prints at most.
const MAX_LISTED: u32 = 1000;

#[derive(Debug, Subcommand)]
pub enum ModerationCommand {
    /// List the newest uploads: whose they are, whether they count, how far they lie from others
    Uploads {
        /// Only those of this account
        #[arg(long, value_name = "NAME")]
        account: Option<AccountName>,
        /// Only those that count, are fenced or are quarantined
        #[arg(long, value_name = "counts|fenced|quarantined")]
        standing: Option<Standing>,
        #[command(flatten)]
        data: Data,
    },
    /// Keep uploads from counting in boards, tables, datasets and trainings
    Quarantine(Act),
    /// Let quarantined uploads count again
    Restore(Act),
    /// Delete uploads for good, with what nobody else has sent
    Remove(Act),
    /// Vouch for the facts of a hardware that is in no catalogue: times are judged by them from then on
    ConfirmHardware {
        /// Such as nvidia-h200
        slug: HardwareSlug,
        /// The facts that this upload states, instead of those that the server has
        #[arg(long, value_name = "ID")]
        upload: Option<UploadId>,
        /// Why; it is written down
        #[arg(long, value_name = "TEXT")]
        reason: Reason,
        #[command(flatten)]
        data: Data,
    },
    /// Make one kind of hardware a part of another that it turned out to be, for good
    MergeHardware {
        /// Has no board of its own any more; must be in no catalogue
        from: HardwareSlug,
        /// What was measured on the first is this one's from then on, also what comes later
        into: HardwareSlug,
        /// Why; it is written down
        #[arg(long, value_name = "TEXT")]
        reason: Reason,
        #[command(flatten)]
        data: Data,
    },
    /// Give an agent work again that was put aside since its results were refused
    Readmit {
        /// The id of the agent
        agent: AgentId,
        /// Why; it is written down
        #[arg(long, value_name = "TEXT")]
        reason: Reason,
        #[command(flatten)]
        data: Data,
    },
    /// List what administrators did, newest first
    Log {
        #[command(flatten)]
        data: Data,
    },
    /// List what users reported, newest first
    Reports {
        #[command(flatten)]
        data: Data,
    },
}

#[derive(Debug, Args)]
pub struct Act {
    #[command(flatten)]
    subject: Subject,
    /// Why; it is written down, and the contributor can read it
    #[arg(long, value_name = "TEXT")]
    reason: Reason,
    #[command(flatten)]
    data: Data,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Subject {
    /// The id of an upload
    upload: Option<UploadId>,
    /// All uploads of this account
    #[arg(long, value_name = "NAME")]
    account: Option<AccountName>,
    /// All that this agent has sent
    #[arg(long, value_name = "ID")]
    agent: Option<AgentId>,
    /// All uploads that were sent without an account
    #[arg(long)]
    anonymous: bool,
}

impl ModerationCommand {
    /// Runs the command. Returns the text to print.
    pub async fn run(self) -> anyhow::Result<String> {
        let data = match &self {
            Self::Quarantine(act) | Self::Restore(act) | Self::Remove(act) => act.data.clone(),
            Self::ConfirmHardware { data, .. }
            | Self::MergeHardware { data, .. }
            | Self::Readmit { data, .. }
            | Self::Uploads { data, .. }
            | Self::Log { data }
            | Self::Reports { data } => data.clone(),
        };
        let backend = Backend::open_existing(&data).await?;
        let outcome = self.answer(&backend).await;
        backend.store.close().await;
        outcome
    }

    async fn answer(self, backend: &Backend) -> anyhow::Result<String> {
        let store = backend.store.as_ref();
        Ok(match self {
            Self::Uploads { account, standing, .. } => {
                let filter = UploadFilter { contributor: account, standing };
                store.uploads(&filter, MAX_LISTED).await?.iter().map(upload_line).collect()
            }
            Self::Quarantine(act) => moderate(backend, ModerationAction::Quarantine, act).await?,
            Self::Restore(act) => moderate(backend, ModerationAction::Restore, act).await?,
            Self::Remove(act) => moderate(backend, ModerationAction::Delete, act).await?,
            Self::ConfirmHardware { slug, upload, reason, .. } => {
                let request = HardwareConfirmation { hardware: slug, upload, reason };
                confirm(backend, &request, WHO).await?;
                format!("the facts of {} are confirmed\n", request.hardware)
            }
            Self::MergeHardware { from, into, reason, .. } => {
                let request = HardwareMerge { from, into, reason };
                match store.merge_hardware(&request, WHO, Now::read()).await? {
                    Ok(solutions) => format!(
                        "{} is part of {} now, with its {solutions} solutions; the boards follow within seconds while a \
                         server runs\n",
                        request.from, request.into
                    ),
                    Err(refused) => bail!("{}", refused.explain(&request)),
                }
            }
            Self::Readmit { agent, reason, .. } => {
                if !store.readmit_agent(&agent, &reason, WHO, Now::read()).await? {
                    bail!("no agent `{agent}` was put aside; GET /api/v1/agents lists the agents");
                }
                format!("agent {agent} gets work again\n")
            }
            Self::Log { .. } => {
                let line = |entry: &diode_api::LogEntry| {
                    format!("{} {}: {}: {}\n", entry.at, entry.who, entry.what, entry.why)
                };
                store.moderation_log(MAX_LISTED).await?.iter().map(line).collect()
            }
            Self::Reports { .. } => {
                let line = |report: &diode_api::Report| {
                    let who = report.who.as_ref().map_or("somebody", AccountName::as_str);
                    format!("{} {who}: upload {}: {}\n", report.at, report.upload, report.reason.as_str())
                };
                store.reports(MAX_LISTED).await?.iter().map(line).collect()
            }
        })
    }
}

async fn moderate(backend: &Backend, action: ModerationAction, act: Act) -> anyhow::Result<String> {
    let Subject { upload, account, agent, .. } = act.subject;
    let subject = match (upload, account, agent) {
        (Some(upload), ..) => ModerationSubject::Upload(upload),
        (_, Some(name), _) => ModerationSubject::Account(name),
        (.., Some(agent)) => ModerationSubject::Agent(agent),
        (None, None, None) => ModerationSubject::Anonymous,
    };
    let moderation = Moderation { action, subject, reason: act.reason };
    let done = backend.store.moderate(&moderation, WHO, Now::read()).await?;
    let done = done.with_context(|| {
        format!("no {}; `diode-server admin uploads` lists the uploads", moderation.subject)
    })?;
    backend.forget(done.files).await?;
    Ok(format!("{action} {}: {} uploads changed\n", moderation.subject, done.uploads.len()))
}

fn upload_line(receipt: &Receipt) -> String {
    let who = receipt.contributor.as_ref().map_or("without an account", AccountName::as_str);
    let reason = receipt.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    format!("{} {} {who}, {}{reason}\n", receipt.id, receipt.received_at, receipt.standing)
}
