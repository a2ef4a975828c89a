//! Commands that list what an administrator looks at.

use std::collections::BTreeSet;

use clap::Subcommand;
use diode_api::{
    ContributionState, HardwareReceipt, ModelSummary, Publication, Receipt, SnapshotSummary, Standing,
};
use diode_core::ids::{AccountName, HardwareSlug};

use crate::backend::Backend;
use crate::store::{ContributionFilter, Credentials, LinkedIdentity, LogEntry, Report, UploadFilter};

/// How many lines a list prints at most. The newest are listed.
const MAX_LISTED: u32 = 1000;

#[derive(Debug, Subcommand)]
pub enum List {
    /// List the newest uploads: whose they are, whether they count, how far they lie from others
    Uploads {
        /// Only those of this account
        #[arg(long, value_name = "NAME")]
        account: Option<AccountName>,
        /// Only those that count, are fenced or are quarantined
        #[arg(long, value_name = "counts|fenced|quarantined")]
        standing: Option<Standing>,
    },
    /// List what administrators did, newest first
    Log,
    /// List what users reported, newest first
    Reports,
    /// List the models and whether they are published
    Models {
        /// Only those of this hardware, such as nvidia-h200
        #[arg(long, value_name = "SLUG")]
        hardware: Option<HardwareSlug>,
    },
    /// List which models of a hardware were published when and why, newest first
    History {
        /// Such as nvidia-h200
        hardware: HardwareSlug,
    },
    /// List the models that people have contributed, with the server's figures
    Contributed {
        /// Only those in this state: waiting, evaluated, accepted or declined
        #[arg(long, value_name = "STATE")]
        state: Option<ContributionState>,
    },
    /// List the snapshots, newest first, with their digests and whether their files are there
    Snapshots {
        /// Only those of this hardware, such as nvidia-h200
        #[arg(long, value_name = "SLUG")]
        hardware: Option<HardwareSlug>,
    },
    /// List the accounts
    Accounts,
}

impl List {
    /// The lines of the list.
    pub async fn lines(self, backend: &Backend) -> anyhow::Result<Vec<String>> {
        let store = &backend.store;
        Ok(match self {
            Self::Uploads { account, standing } => {
                let filter = UploadFilter { contributor: account, standing };
                store.uploads(&filter, MAX_LISTED).await?.iter().map(upload_line).collect()
            }
            Self::Log => store.moderation_log(MAX_LISTED).await?.iter().map(log_line).collect(),
            Self::Reports => store.reports(MAX_LISTED).await?.iter().map(report_line).collect(),
            Self::Models { hardware } => {
                store.models(hardware.as_ref(), MAX_LISTED).await?.iter().map(model_line).collect()
            }
            Self::History { hardware } => {
                store.publications(&hardware, MAX_LISTED).await?.iter().map(step_line).collect()
            }
            Self::Contributed { state } => {
                let filter = ContributionFilter { account: None, state };
                store.contributions(&filter, MAX_LISTED).await?.iter().map(contribution_line).collect()
            }
            Self::Snapshots { hardware } => {
                store.snapshots(hardware.as_ref(), MAX_LISTED).await?.iter().map(snapshot_line).collect()
            }
            Self::Accounts => store.accounts().await?.iter().map(account_line).collect(),
        })
    }
}

fn upload_line(receipt: &Receipt) -> String {
    let who = receipt.contributor.as_ref().map_or("without an account", AccountName::as_str);
    let reason = receipt.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    let of = |count: fn(&HardwareReceipt) -> u64| receipt.hardware.iter().map(count).sum::<u64>();
    let (problems, timings) = (of(|own| own.problems), of(|own| own.timings));
    let apart = of(|own| own.set_apart.iter().map(|part| part.timings).sum());
    let hardware: BTreeSet<&str> = receipt.hardware.iter().map(|own| own.slug.as_str()).collect();
    let hardware = hardware.into_iter().collect::<Vec<_>>().join(" ");
    let mut found = format!("{hardware}, {problems} problems, {timings} timings");
    if apart > 0 {
        found += &format!(", {apart} impossible");
    }
    if let Some(log_ratio) = receipt.log_ratio {
        found += &format!(", {:.2} of others' times on {}", log_ratio.exp(), receipt.compared_problems);
    }
    format!("{} {} {who}, {}{reason}; {found}", receipt.id, receipt.received_at, receipt.standing)
}

fn log_line(entry: &LogEntry) -> String {
    format!("{} {}: {}: {}", entry.at, entry.who, entry.what, entry.why)
}

fn report_line(report: &Report) -> String {
    let who = report.who.as_ref().map_or("somebody", AccountName::as_str);
    format!("{} {who}: upload {}: {}", report.at, report.upload, report.reason.as_str())
}

pub(super) fn contribution_line(model: &ModelSummary) -> String {
    let Some(about) = &model.contribution else { return model_line(model) };
    let by = about.by.as_ref().map_or("a deleted account", |by| by.as_str());
    let figures = about.figures.as_ref().map_or("not judged yet", |figures| figures.why.as_str());
    let said = if about.reason.is_empty() { String::new() } else { format!(": {}", about.reason) };
    let (description, licence) = (about.description.as_str(), about.licence.as_str());
    format!(
        "{} {} {} of {by}, {}{said}; {figures}; {description} ({licence})",
        model.id, about.sent_at, model.hardware, about.state
    )
}

pub(super) fn model_line(model: &ModelSummary) -> String {
    let pinned = if model.pinned { ", pinned" } else { "" };
    let reason = if model.reason.is_empty() { String::new() } else { format!(": {}", model.reason) };
    format!("{} {} {} {}{pinned}{reason}", model.id, model.created_at, model.hardware, model.state)
}

fn step_line(step: &Publication) -> String {
    format!("{} {}: {} {}: {}", step.at, step.who, step.action, step.model, step.why)
}

fn snapshot_line(snapshot: &SnapshotSummary) -> String {
    let SnapshotSummary { name, digest, created_at, problems, timings, bytes, state, .. } = snapshot;
    let withdrawn = match snapshot.withdrawn_uploads {
        0 => String::new(),
        number => format!(", {number} uploads withdrawn"),
    };
    let reason = if snapshot.reason.is_empty() { String::new() } else { format!(": {}", snapshot.reason) };
    format!(
        "{name} {created_at} {digest} {problems} problems {timings} timings {bytes} bytes {state}{withdrawn}{reason}"
    )
}

fn account_line(found: &Credentials) -> String {
    let Credentials { account, password, disabled } = found;
    let mut notes = vec![format!("since {}", account.created_at)];
    notes.extend(account.admin.then(|| "administrator".to_owned()));
    notes.extend(password.is_none().then(|| "no password".to_owned()));
    notes.extend(disabled.then(|| "disabled".to_owned()));
    format!("{}: {}", account.name, notes.join(", "))
}

pub(super) fn identity_line(LinkedIdentity { issuer, since }: &LinkedIdentity) -> String {
    format!("{issuer} since {since}")
}
