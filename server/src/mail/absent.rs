//! Takes the place of `transport` in a program that was built without mails.

use anyhow::bail;

use super::{Failure, Letter};
use crate::settings::MailSettings;

/// No value of this type exists.
pub(super) enum Transport {}

/// No value of this type exists.
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
