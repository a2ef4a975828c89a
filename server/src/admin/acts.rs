//! What an administrator can do. An act is declared once: the command line parses it from its arguments, and the pages
//! from their forms. The two routes of the API call the functions that [`Act::run`] calls.

use clap::{Args, Subcommand};
use diode_api::{
    Account, Job, JobKind, JobRequest, Moderated, Moderation, ModerationAction, ModerationSubject,
    NewSnapshot, PublicationAction, Reason, SnapshotName,
};
use diode_core::Heuristic;
use diode_core::hardware::Facts;
use diode_core::ids::{AccountName, AgentId, Digest, HardwareSlug, JobId, ModelId, UploadId};
use serde::Deserialize;
use serde::de::value::{Error as ValueError, MapDeserializer};

use crate::admin::lists::{contribution_line, model_line};
use crate::backend::Backend;
use crate::blobs::BlobKind;
use crate::http::{ApiFault, ApiResult};
use crate::jobs::accepted;
use crate::models::contribution_routes::{judging, no_job};
use crate::pages::counted;
use crate::store::{
    NewPublication, NotMerged, Now, Refused, Review, ReviewAction, ReviewRefused, Store, StoreResult,
};

/// Who acts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Actor<'a> {
    CommandLine,
    Account(&'a Account),
}

impl Actor<'_> {
    /// The name that the log keeps.
    pub(crate) fn who(&self) -> &str {
        match self {
            Self::CommandLine => "command line",
            Self::Account(account) => account.name.as_str(),
        }
    }

    /// Writes to the log an act that asks for no reason.
    pub(crate) async fn write_down(&self, store: &Store, what: &str) -> StoreResult<()> {
        let how = match self {
            Self::CommandLine => "by diode-server admin",
            Self::Account(_) => "over the web",
        };
        store.write_down(what, how, self.who(), Now::read()).await
    }

    /// Says what lists the things that there are.
    fn list(&self, command: &str, path: &str) -> String {
        match self {
            Self::CommandLine => format!("`diode-server admin {command}`"),
            Self::Account(_) => path.to_owned(),
        }
    }
}

/// Something that an administrator does. A form names it in its field `act`.
#[derive(Debug, Subcommand, Deserialize)]
#[serde(tag = "act", rename_all = "kebab-case")]
pub enum Act {
    /// Keep uploads from counting in boards, tables, datasets and trainings
    Quarantine(Uploads),
    /// Let quarantined uploads count again
    Restore(Uploads),
    /// Let uploads count as the operator's: they lead boards and teach models before others confirm them
    Vouch(Uploads),
    /// Delete uploads for good, with what nobody else has sent
    Remove(Uploads),
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
    },
    /// Give an agent work again that was put aside since its results were refused
    Readmit {
        /// The id of the agent
        agent: AgentId,
        /// Why; it is written down
        #[arg(long, value_name = "TEXT")]
        reason: Reason,
    },
    /// Publish a model in place of the one that is published
    Publish(OneModel),
    /// Take the published model back: the one before it is published again
    RollBack(OneModel),
    /// Keep the published model until you say otherwise, however good new ones are
    Pin(OneModel),
    /// Let better models take the place of the published one again
    Unpin(OneModel),
    /// Make a contributed model one of the server's, without publishing it
    Accept(OneModel),
    /// Decline a contributed model, or take it from the server's models: if it is published, the one before it is again
    Decline(OneModel),
    /// Have a contributed model judged anew
    Judge(OneModel),
    /// Queue a job that freezes everything that counts of a hardware; a worker makes it
    Snapshot {
        /// Such as nvidia-h200
        hardware: HardwareSlug,
        /// Why; it is written down
        #[arg(long, value_name = "TEXT")]
        reason: Reason,
    },
    /// Remove the files of a snapshot for good; its name, its digest and the reason stay
    RemoveSnapshot {
        /// Such as nvidia-h200@3
        name: SnapshotName,
        /// Why; it is written down, and everybody can read it
        #[arg(long, value_name = "TEXT")]
        reason: Reason,
    },
    /// Cancel a job that waits or runs
    CancelJob {
        /// The id of the job
        job: JobId,
    },
    /// Withdraw a kernel pack: agents that have it stop using it
    WithdrawPack {
        /// The digest of the pack
        digest: Digest,
    },
    /// End an account's sessions and keep it and its tokens from working; its uploads stay
    Disable { name: AccountName },
    /// Let a disabled account work again
    Enable { name: AccountName },
}

/// Which uploads, and why.
#[derive(Debug, Args, Deserialize)]
pub struct Uploads {
    #[command(flatten)]
    #[serde(flatten)]
    subject: Subject,
    /// Why; it is written down, and the contributor can read it
    #[arg(long, value_name = "TEXT")]
    reason: Reason,
}

#[derive(Debug, Args, Deserialize)]
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
    #[serde(skip)]
    anonymous: bool,
}

impl Subject {
    fn whole(self) -> ApiResult<ModerationSubject> {
        Ok(match self {
            Self { upload: Some(upload), .. } => ModerationSubject::Upload(upload),
            Self { account: Some(name), .. } => ModerationSubject::Account(name),
            Self { agent: Some(agent), .. } => ModerationSubject::Agent(agent),
            Self { anonymous: true, .. } => ModerationSubject::Anonymous,
            _ => return Err(ApiFault::invalid("expected the id of an upload or the name of an account")),
        })
    }
}

/// Which model, and why.
#[derive(Debug, Args, Deserialize)]
pub struct OneModel {
    /// The id of a model
    model: ModelId,
    /// Why; it is written down, and everybody can read it
    #[arg(long, value_name = "TEXT")]
    reason: Reason,
}

/// The acts that cannot be taken back, and what the button says that confirms them.
const FOR_GOOD: [(&str, &str); 4] = [
    ("remove", "Delete for good"),
    ("merge-hardware", "Merge for good"),
    ("remove-snapshot", "Remove its files for good"),
    ("withdraw-pack", "Withdraw for good"),
];

/// The acts that another act takes back.
const OPPOSITES: [(&str, &str); 4] =
    [("quarantine", "restore"), ("disable", "enable"), ("pin", "unpin"), ("unpin", "pin")];

fn of(acts: &[(&'static str, &'static str)], name: &str) -> Option<&'static str> {
    acts.iter().find(|(own, _)| *own == name).map(|(_, word)| *word)
}

impl Act {
    /// What the button says that confirms an act. `None` if it can be taken back.
    pub(crate) fn for_good(name: &str) -> Option<&'static str> {
        of(&FOR_GOOD, name)
    }

    /// The act that takes another back.
    pub(crate) fn undone_by(name: &str) -> Option<&'static str> {
        of(&OPPOSITES, name)
    }

    /// The act that a form asks for. A field that is left empty counts as absent.
    pub(crate) fn of_form(fields: Vec<(String, String)>) -> ApiResult<Self> {
        let given = fields.into_iter().filter(|(_, value)| !value.trim().is_empty());
        let given = given.map(|(name, value)| (name, value.trim().to_owned()));
        Self::deserialize(MapDeserializer::<_, ValueError>::new(given))
            .map_err(|error| ApiFault::invalid(error.to_string()))
    }

    /// Does it. Returns what to tell the administrator, without an end of line.
    pub(crate) async fn run(self, backend: &Backend, by: Actor<'_>) -> ApiResult<String> {
        let now = Now::read();
        let moderated = async |action, Uploads { subject, reason }: Uploads| {
            let request = Moderation { action, subject: subject.whole()?, reason };
            let changed = moderate(backend, &request, by).await?.uploads.len();
            Ok(format!("{action} {}: {} changed", request.subject, counted(changed as u64, "upload")))
        };
        let published = async |action, OneModel { model, reason }: OneModel| {
            let request = NewPublication { action, model, reason };
            match backend.store.publish(&request, by.who(), now).await? {
                Ok(model) => Ok(format!("published: {}", model_line(&model))),
                Err(refused) => {
                    let words = refused.explain(&request.model);
                    Err(match refused {
                        Refused::Unknown => ApiFault::not_found(words),
                        Refused::OnlyTheServer => ApiFault::invalid(words),
                        Refused::Published
                        | Refused::NotPublished
                        | Refused::First
                        | Refused::ForComparison => ApiFault::conflict(words),
                    })
                }
            }
        };
        let reviewed = async |action, OneModel { model, reason }: OneModel| {
            let review = Review { action, model, reason };
            let found = match action {
                ReviewAction::Judge => backend.store.contribution(&review.model).await?,
                ReviewAction::Accept | ReviewAction::Decline => None,
            };
            let job = found.map(|model| judging(model.heuristic, &model.hardware, &model.id, now));
            let job = job.transpose().map_err(ApiFault::internal)?;
            match backend.store.review(&review, job.as_ref(), by.who(), now).await? {
                Ok(model) => Ok(contribution_line(&model)),
                Err(ReviewRefused::NoJob(queued)) => Err(no_job(queued)),
                Err(ReviewRefused::Unknown) => {
                    Err(ApiFault::not_found(ReviewRefused::Unknown.explain(&review)))
                }
                Err(refused) => Err(ApiFault::conflict(refused.explain(&review))),
            }
        };
        match self {
            Self::Quarantine(uploads) => moderated(ModerationAction::Quarantine, uploads).await,
            Self::Restore(uploads) => moderated(ModerationAction::Restore, uploads).await,
            Self::Vouch(uploads) => moderated(ModerationAction::Vouch, uploads).await,
            Self::Remove(uploads) => moderated(ModerationAction::Delete, uploads).await,
            Self::ConfirmHardware { slug, upload, reason } => {
                let facts = match upload {
                    None => None,
                    Some(upload) => Some(stated(backend, &slug, &upload).await?),
                };
                if !backend.store.confirm_hardware(&slug, facts.as_ref(), &reason, by.who(), now).await? {
                    let words = format!("nobody has described `{slug}`; name an upload that does");
                    return Err(ApiFault::refused(words));
                }
                Ok(format!("the facts of {slug} are confirmed"))
            }
            Self::MergeHardware { from, into, reason } => {
                let done = backend.store.merge_hardware(&from, &into, &reason, by.who(), now).await?;
                let solutions = done.map_err(|refused| {
                    let words = refused.explain(&from, &into);
                    match refused {
                        NotMerged::Unknown(_) => ApiFault::not_found(words),
                        NotMerged::Busy(_) => ApiFault::conflict(words),
                        NotMerged::Same | NotMerged::Listed | NotMerged::Simulated => {
                            ApiFault::refused(words)
                        }
                    }
                })?;
                Ok(format!(
                    "{from} is part of {into} now, with its {solutions} solutions; the boards follow within seconds \
                     while a server runs"
                ))
            }
            Self::Readmit { agent, reason } => {
                if !backend.store.readmit_agent(&agent, &reason, by.who(), now).await? {
                    return Err(ApiFault::not_found(format!(
                        "no agent `{agent}` was put aside; GET /api/v1/agents lists the agents"
                    )));
                }
                Ok(format!("agent {agent} gets work again"))
            }
            Self::Publish(model) => published(PublicationAction::Publish, model).await,
            Self::RollBack(model) => published(PublicationAction::RollBack, model).await,
            Self::Pin(model) => published(PublicationAction::Pin, model).await,
            Self::Unpin(model) => published(PublicationAction::Unpin, model).await,
            Self::Accept(model) => reviewed(ReviewAction::Accept, model).await,
            Self::Decline(model) => reviewed(ReviewAction::Decline, model).await,
            Self::Judge(model) => reviewed(ReviewAction::Judge, model).await,
            Self::Snapshot { hardware, reason } => {
                if backend.store.hardware(&hardware).await?.is_none() {
                    return Err(ApiFault::not_found(format!("no hardware `{hardware}`")));
                }
                let job = snapshot(backend, &NewSnapshot { hardware, reason }, by).await?;
                Ok(format!("queued as job {}", job.id))
            }
            Self::RemoveSnapshot { name, reason } => {
                let files = backend.store.remove_snapshot(&name, &reason, by.who(), now).await?;
                let files = files.ok_or_else(|| {
                    let list = by.list("snapshots", "/api/v1/snapshots");
                    ApiFault::not_found(format!("no snapshot `{name}` that has files; {list} lists them"))
                })?;
                let removed = files.len();
                backend.forget(files).await?;
                Ok(format!("{removed} files of {name} removed"))
            }
            Self::CancelJob { job } => {
                if backend.store.cancel_job(&job, now).await?.is_none() {
                    return Err(ApiFault::conflict(format!(
                        "job `{job}` has ended, so it cannot be cancelled"
                    )));
                }
                by.write_down(&backend.store, &format!("cancel job {job}")).await?;
                Ok(format!("job {job} is cancelled"))
            }
            Self::WithdrawPack { digest } => {
                if !backend.store.remove_pack(&digest).await? {
                    return Err(ApiFault::not_found(format!("no pack `{digest}`")));
                }
                by.write_down(&backend.store, &format!("withdraw pack {digest}")).await?;
                Ok("the pack is withdrawn; agents that have it stop using it".to_owned())
            }
            Self::Disable { name } => set_disabled(backend, &name, true, by).await,
            Self::Enable { name } => set_disabled(backend, &name, false, by).await,
        }
    }
}

/// Quarantines, restores or deletes uploads.
pub(crate) async fn moderate(backend: &Backend, request: &Moderation, by: Actor<'_>) -> ApiResult<Moderated> {
    let done = backend.store.moderate(request, by.who(), Now::read()).await?;
    let done = done.ok_or_else(|| {
        let list = by.list("uploads", "/api/v1/uploads");
        ApiFault::not_found(format!("no {}; {list} lists the uploads", request.subject))
    })?;
    backend.forget(done.files).await?;
    Ok(Moderated { uploads: done.uploads })
}

/// Queues a job that freezes the data of a hardware.
pub(crate) async fn snapshot(backend: &Backend, request: &NewSnapshot, by: Actor<'_>) -> ApiResult<Job> {
    let now = Now::read();
    let job = JobRequest::new(JobKind::Snapshot, Heuristic::Matmul, request.hardware.clone());
    let job = crate::jobs::trainings::job(job, false, now).map_err(ApiFault::internal)?;
    let whose = match by {
        Actor::CommandLine => None,
        Actor::Account(account) => Some(&account.id),
    };
    accepted(backend.store.queue_snapshot(&job, request, whose, by.who(), now).await?)?;
    Ok(job)
}

/// Why an account is neither deleted nor disabled.
pub(crate) const LAST_ADMINISTRATOR: &str = "this is the account of the last administrator, who looks after the server; \
                                             make another first: diode-server admin create NAME --admin";

async fn set_disabled(
    backend: &Backend,
    name: &AccountName,
    disabled: bool,
    by: Actor<'_>,
) -> ApiResult<String> {
    let found = backend.store.credentials(name).await?.ok_or_else(|| {
        let hint = by.list("accounts", "/admin/accounts");
        ApiFault::not_found(format!("no account `{name}`; {hint} lists them"))
    })?;
    if let Actor::Account(own) = by
        && disabled
        && own.id == found.account.id
    {
        return Err(ApiFault::conflict("this is your own account; another administrator may disable it"));
    }
    let may_be_last = matches!(by, Actor::CommandLine);
    if !backend.store.set_disabled(&found.account.id, disabled, may_be_last, Now::read()).await? {
        return Err(ApiFault::conflict(LAST_ADMINISTRATOR));
    }
    by.write_down(&backend.store, &format!("{} {name}", if disabled { "disable" } else { "enable" })).await?;
    Ok(format!("{name} is {}", if disabled { "disabled" } else { "enabled" }))
}

/// The facts of a hardware in the file of an upload.
async fn stated(backend: &Backend, slug: &HardwareSlug, upload: &UploadId) -> ApiResult<Facts> {
    let receipt = backend.store.receipt(upload).await?.ok_or_else(|| {
        ApiFault::not_found(format!("no upload `{upload}`; GET /api/v1/uploads lists the uploads"))
    })?;
    let bytes = backend.blobs.get(BlobKind::Upload, &receipt.digest).await?;
    // Takes its turn with the uploads that arrive, because memory has room for few decoded files.
    let turn = backend.storing.turn().await;
    let decoded = tokio::task::spawn_blocking(move || diode_formats::decode(&bytes)).await?;
    let decoded = decoded.map_err(|error| {
        ApiFault::internal(anyhow::anyhow!("the file of the upload cannot be read any more: {error}"))
    })?;
    drop(turn);
    let stated = decoded.datasets.into_iter().map(|dataset| dataset.hardware);
    stated
        .filter(|hardware| hardware.slug == *slug)
        .find_map(|hardware| hardware.facts)
        .ok_or_else(|| ApiFault::refused(format!("upload `{upload}` does not describe `{slug}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_acts_name_acts() {
        let acts = Act::augment_subcommands(clap::Command::new("admin"));
        let named = FOR_GOOD.iter().map(|(act, _)| *act).chain(OPPOSITES.iter().flat_map(|&(a, b)| [a, b]));
        for act in named {
            assert!(acts.find_subcommand(act).is_some(), "{act}");
        }
    }
}
