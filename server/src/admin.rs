//! What an operator does with the data: by command, and for the acts of administrators also on pages and through the API.

mod accounts;
pub(crate) mod acts;
pub(crate) mod admin_routes;
pub mod backup;
pub mod doctor;
mod lists;
pub(crate) mod moderation_store;
pub(crate) mod pages;
mod seed;
mod sweep;
pub(crate) mod touched;
mod verify;

use std::io::Write as _;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args as _, Command, FromArgMatches, Subcommand};

pub use accounts::AccountCommand;
pub use acts::Act;
pub use lists::List;
pub use seed::{Seeded, seed};
pub use sweep::{Swept, sweep};
pub use verify::{Difference, Verified, verify, verify_entries};

use crate::backend::Backend;
use crate::settings::Data;
use acts::Actor;

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
        all.get_subcommands().cloned().map(Data::augment_args).fold(command, Command::subcommand)
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
        outcome.map(|said| said + "\n").map_err(crate::http::ApiFault::into_error)
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
