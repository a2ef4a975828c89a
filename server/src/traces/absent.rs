//! Takes the place of `tracer` in a program that was built without spans.

use std::time::Duration;

use anyhow::bail;
use axum::http::HeaderMap;
use diode_api::Job;

use super::Asked;
use crate::settings::OtlpEndpoint;

/// No value of this type exists.
pub(super) enum Tracer {}

/// No value of this type exists.
pub(super) enum Recorded {}

impl Tracer {
    pub(super) fn new(endpoint: &OtlpEndpoint) -> anyhow::Result<Self> {
        bail!(
            "otlp_endpoint: got `{endpoint}`, but this diode-server was built without the feature `traces`; build \
             it with `cargo build --package diode-server`, or remove the setting"
        );
    }

    pub(super) fn request(&self, _: &Asked<'_>, _: &HeaderMap) -> Recorded {
        match *self {}
    }

    pub(super) fn job(&self, _: &Job) -> Recorded {
        match *self {}
    }

    pub(super) fn end(&self, _: Duration) -> anyhow::Result<()> {
        match *self {}
    }
}

impl Recorded {
    pub(super) fn note<T>(&mut self, _: &'static str, _: T) {
        match *self {}
    }

    pub(super) fn failed(&mut self, _: String) {
        match *self {}
    }
}
