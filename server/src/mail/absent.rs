//! In the place of the way out, in a program that was built without mails.

use anyhow::bail;

use super::{Failure, Letter};
use crate::settings::MailSettings;

/// There is none.
pub(super) enum Transport {}

/// A letter that would be sent.
pub(super) enum Written {}

impl Transport {
    pub(super) fn new(settings: &MailSettings, _: &str) -> anyhow::Result<Self> {
        bail!(
            "mail server: got `{}`, but this diode-server was built without the feature `mail`; build it with \
             `cargo build --package diode-server`, or remove the setting",
            settings.server
        );
    }

    pub(super) fn write(&self, _: &Letter, _: &str) -> anyhow::Result<Written> {
        match *self {}
    }

    pub(super) async fn send(&self, _: &Written) -> Result<(), Failure> {
        match *self {}
    }
}
