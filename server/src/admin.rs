//! What an operator does with the data: by command, and for the acts of administrators also on pages and through the API.

mod accounts;
pub(crate) mod acts;
pub mod backup;
pub mod doctor;
mod lists;
pub(crate) mod moderation_store;
pub(crate) mod pages;
mod seed;
pub(crate) mod touched;
mod verify;

use std::io::Write as _;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use clap::error::ErrorKind;
use clap::{ArgMatches, Args as _, Command, FromArgMatches, Subcommand};
use diode_api::{Moderated, Moderation, NewReport};

pub use accounts::AccountCommand;
pub use acts::Act;
pub use lists::List;
pub use seed::{Seeded, seed};
pub use verify::{Difference, Swept, Verified, sweep, verify, verify_entries};

use crate::accounts::{Admin, Authorized, Peer, Report, admit_report};
use crate::app::App;
use crate::backend::Backend;
use crate::http::{ApiFault, ApiResult, json_body};
use crate::settings::Data;
use crate::store::Now;
use acts::{Actor, moderate};

/// A command with the flags of the data that it works on.
#[derive(Debug)]
pub struct WithData<C> {
    command: C,
    data: Data,
}

impl<C: Subcommand> FromArgMatches for WithData<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let (_, own) = matches.subcommand().ok_or_else(|| clap::Error::new(ErrorKind::MissingSubcommand))?;
        Ok(Self { command: C::from_arg_matches(matches)?, data: Data::from_arg_matches(own)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<C: Subcommand> Subcommand for WithData<C> {
    fn augment_subcommands(command: Command) -> Command {
        let all = C::augment_subcommands(Command::new("admin"));
        // The flags come with words about them, which are not the command's.
        let with_data = |own: &Command| {
            let all = Data::augment_args(own.clone());
            let all = own.get_about().cloned().into_iter().fold(all, |all, about| all.about(about));
            own.get_long_about().cloned().into_iter().fold(all, |all, about| all.long_about(about))
        };
        all.get_subcommands().map(with_data).fold(command, Command::subcommand)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        C::has_subcommand(name)
    }
}

impl WithData<Act> {
    /// Runs the command. Returns the text to print.
    pub async fn run(self) -> anyhow::Result<String> {
        let backend = Backend::open_existing(&self.data).await?;
        let outcome = self.command.run(&backend, Actor::CommandLine).await;
        backend.store.close().await;
        outcome.map(|said| said + "\n").map_err(ApiFault::into_error)
    }
}

impl WithData<List> {
    /// Runs the command. Returns the text to print.
    pub async fn run(self) -> anyhow::Result<String> {
        let backend = Backend::open_existing(&self.data).await?;
        let outcome = self.command.lines(&backend).await;
        backend.store.close().await;
        Ok(outcome?.into_iter().map(|line| line + "\n").collect())
    }
}

/// Prints to stdout, so that a script can read it.
pub fn print(text: &str) -> std::io::Result<()> {
    std::io::stdout().write_all(text.as_bytes())
}

/// Quarantines, restores or deletes an upload, or all of a contributor. Boards, tables and datasets follow;
/// models that were trained on it say so.
#[utoipa::path(
    post, path = "/moderation", tag = "moderation", request_body = Moderation, operation_id = "create",
    responses(
        (status = 200, body = Moderated),
        (status = 401),
        (status = 403, description = "Not an administrator, or a token without the scope"),
        (status = 404, description = "No such upload or account"),
    ),
)]
pub(crate) async fn act(
    State(app): State<App>,
    admin: Authorized<Admin>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Json<Moderated>> {
    let request: Moderation = json_body(&headers, body).await?;
    Ok(Json(moderate(&app.backend, &request, admin.by()?).await?))
}

/// Tells the administrators that something is wrong with an upload.
#[utoipa::path(
    post, path = "/reports", tag = "moderation", request_body = NewReport,
    responses(
        (status = 204, description = "Noted"),
        (status = 401, description = "Reports need an account where uploads do"),
        (status = 403),
        (status = 404, description = "No such upload"),
        (status = 429, description = "More than 20 within a day"),
    ),
)]
pub(crate) async fn report(
    State(app): State<App>,
    peer: Peer,
    Authorized { account, .. }: Authorized<Report>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<StatusCode> {
    let report: NewReport = json_body(&headers, body).await?;
    admit_report(&app, account.as_ref(), &peer).await?;
    let whose = account.as_ref().map(|account| &account.id);
    if app.backend.store.add_report(&report, whose, Now::read()).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(ApiFault::not_found(format!("no upload `{}`; /api/v1/uploads lists the uploads", report.upload)))
    }
}
