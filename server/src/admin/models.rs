//! Commands about models, for the operator of the server.

use anyhow::bail;
use clap::{Args, Subcommand};
use diode_api::{
    ContributionState, ModelSummary, NewPublication, Publication, PublicationAction, Reason, Review,
    ReviewAction,
};
use diode_core::ids::{HardwareSlug, ModelId};

use crate::backend::Backend;
use crate::contributions::review;
use crate::settings::Data;
use crate::store::{ContributionFilter, Now};

/// The name under which the log keeps these actions.
const WHO: &str = "command line";

/// How many lines a list prints at most.
const MAX_LISTED: u32 = 1000;

#[derive(Debug, Subcommand)]
pub enum ModelCommand {
    /// List the models and whether they are published
    Models {
        /// Only those of this hardware, such as nvidia-h200
        #[arg(long, value_name = "SLUG")]
        hardware: Option<HardwareSlug>,
        #[command(flatten)]
        data: Data,
    },
    /// List which models of a hardware were published when and why, newest first
    History {
        /// Such as nvidia-h200
        hardware: HardwareSlug,
        #[command(flatten)]
        data: Data,
    },
    /// Publish a model in place of the one that is published
    Publish(Act),
    /// Take the published model back: the one before it is published again
    RollBack(Act),
    /// Keep the published model until you say otherwise, however good new ones are
    Pin(Act),
    /// Let better models take the place of the published one again
    Unpin(Act),
    /// List the models that people have contributed, with the server's figures
    Contributed {
        /// Only those in this state: waiting, evaluated, accepted, declined or withdrawn
        #[arg(long, value_name = "STATE")]
        state: Option<ContributionState>,
        #[command(flatten)]
        data: Data,
    },
    /// Make a contributed model one of the server's, without publishing it
    Accept(Act),
    /// Decline a contributed model
    Decline(Act),
    /// Take a contributed model from the server's models; if it is published, the one before it is again
    Withdraw(Act),
    /// Have a contributed model judged anew
    Judge(Act),
}

#[derive(Debug, Args)]
pub struct Act {
    /// The id of a model
    model: ModelId,
    /// Why; it is written down, and everybody can read it
    #[arg(long, value_name = "TEXT")]
    reason: Reason,
    #[command(flatten)]
    data: Data,
}

impl ModelCommand {
    /// Runs the command. Returns the text to print.
    pub async fn run(self) -> anyhow::Result<String> {
        let data = match &self {
            Self::Publish(act) | Self::RollBack(act) | Self::Pin(act) | Self::Unpin(act) => act.data.clone(),
            Self::Accept(act) | Self::Decline(act) | Self::Withdraw(act) | Self::Judge(act) => {
                act.data.clone()
            }
            Self::Models { data, .. } | Self::History { data, .. } | Self::Contributed { data, .. } => {
                data.clone()
            }
        };
        let backend = Backend::open_existing(&data).await?;
        let outcome = self.answer(&backend).await;
        backend.store.close().await;
        outcome
    }

    async fn answer(self, backend: &Backend) -> anyhow::Result<String> {
        let store = backend.store.as_ref();
        let (action, act) = match self {
            Self::Models { hardware, .. } => {
                return Ok(store
                    .models(hardware.as_ref(), MAX_LISTED)
                    .await?
                    .iter()
                    .map(model_line)
                    .collect());
            }
            Self::History { hardware, .. } => {
                let history = store.publications(&hardware, MAX_LISTED).await?;
                return Ok(history.iter().map(step_line).collect());
            }
            Self::Contributed { state, .. } => {
                let filter = ContributionFilter { account: None, state };
                let models = store.contributions(&filter, MAX_LISTED).await?;
                return Ok(models.iter().map(contribution_line).collect());
            }
            Self::Accept(act) => return review_one(backend, ReviewAction::Accept, act).await,
            Self::Decline(act) => return review_one(backend, ReviewAction::Decline, act).await,
            Self::Withdraw(act) => return review_one(backend, ReviewAction::Withdraw, act).await,
            Self::Judge(act) => return review_one(backend, ReviewAction::Evaluate, act).await,
            Self::Publish(act) => (PublicationAction::Publish, act),
            Self::RollBack(act) => (PublicationAction::RollBack, act),
            Self::Pin(act) => (PublicationAction::Pin, act),
            Self::Unpin(act) => (PublicationAction::Unpin, act),
        };
        let request = NewPublication { action, model: act.model, reason: act.reason };
        match store.publish(&request, WHO, Now::read()).await? {
            Ok(published) => Ok(format!("published: {}", model_line(&published))),
            Err(refused) => bail!("{}", refused.explain(&request.model)),
        }
    }
}

async fn review_one(backend: &Backend, action: ReviewAction, act: Act) -> anyhow::Result<String> {
    let request = Review { action, model: act.model, reason: act.reason };
    match review(backend, &request, WHO, Now::read()).await? {
        Ok(model) => Ok(contribution_line(&model)),
        Err(refused) => bail!("{}", refused.explain(&request)),
    }
}

fn contribution_line(model: &ModelSummary) -> String {
    let Some(about) = &model.contribution else { return model_line(model) };
    let by = about.by.as_ref().map_or("a deleted account", |by| by.as_str());
    let figures = about.figures.as_ref().map_or("not judged yet", |figures| figures.why.as_str());
    let said = if about.reason.is_empty() { String::new() } else { format!(": {}", about.reason) };
    let (description, licence) = (about.description.as_str(), about.licence.as_str());
    format!(
        "{} {} {} of {by}, {}{said}; {figures}; {description} ({licence})\n",
        model.id, about.sent_at, model.hardware, about.state
    )
}

fn model_line(model: &ModelSummary) -> String {
    let pinned = if model.pinned { ", pinned" } else { "" };
    let reason = if model.reason.is_empty() { String::new() } else { format!(": {}", model.reason) };
    format!("{} {} {} {}{pinned}{reason}\n", model.id, model.created_at, model.hardware, model.state)
}

fn step_line(step: &Publication) -> String {
    format!("{} {}: {} {}: {}\n", step.at, step.who, step.action, step.model, step.why)
}
