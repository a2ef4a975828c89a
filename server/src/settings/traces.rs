//! Where spans are sent.

use std::fmt::{self, Display};
use std::str::FromStr;

use anyhow::bail;
use axum::http::Uri;
use clap::Args;

const EXPECTED: &str = "expected an address such as http://127.0.0.1:4318";

/// The settings of spans, by flag or variable.
#[derive(Debug, Clone, Default, Args)]
pub struct TraceArgs {
    /// A collector of OpenTelemetry (OTLP over HTTP) for spans of requests and jobs, such as http://127.0.0.1:4318 [default: none]
    #[arg(long, env = "DIODE_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,

    /// The same under the name that all programs with OpenTelemetry know
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", hide = true)]
    pub otel_exporter_otlp_endpoint: Option<String>,
}

/// The address of a collector. Spans go to `/v1/traces` below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpEndpoint(String);

impl OtlpEndpoint {
    /// Combines flags and file; `None` if no spans are sent.
    pub(super) fn resolve(args: TraceArgs, file: Option<String>) -> anyhow::Result<Option<Self>> {
        let given = args.otlp_endpoint.or(args.otel_exporter_otlp_endpoint).or(file);
        // An empty value counts as none, as OpenTelemetry says for variables.
        given.filter(|given| !given.is_empty()).map(|given| given.parse()).transpose()
    }

    /// The address that spans are sent to.
    pub fn of_traces(&self) -> String {
        format!("{}/v1/traces", self.0)
    }
}

impl FromStr for OtlpEndpoint {
    type Err = anyhow::Error;

    fn from_str(given: &str) -> anyhow::Result<Self> {
        if given.contains('@') {
            bail!("otlp_endpoint: got a password in an address; put it into OTEL_EXPORTER_OTLP_HEADERS");
        }
        let uri: Option<Uri> = given.parse().ok();
        let is_whole = uri.is_some_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some()
                && uri.query().is_none()
        });
        if !is_whole {
            bail!("otlp_endpoint: got `{given}`, {EXPECTED}");
        }
        Ok(Self(given.trim_end_matches('/').to_owned()))
    }
}

impl Display for OtlpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_addresses_without_secrets() {
        for (good, traces) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://otel.example.org/diode/", "https://otel.example.org/diode/v1/traces"),
        ] {
            assert_eq!(good.parse::<OtlpEndpoint>().unwrap().of_traces(), traces);
        }
        for bad in ["127.0.0.1:4318", "grpc://a:4317", "http://", "https://a/?key=b", "http://a b"] {
            let error = bad.parse::<OtlpEndpoint>().unwrap_err().to_string();
            assert!(error.contains(EXPECTED), "{error}");
        }
        let error = "https://ada:secret@a".parse::<OtlpEndpoint>().unwrap_err().to_string();
        assert!(error.contains("OTEL_EXPORTER_OTLP_HEADERS") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn our_own_name_wins_over_the_standard_one_and_empty_is_none() {
        let args = |own: Option<&str>, standard: Option<&str>| TraceArgs {
            otlp_endpoint: own.map(str::to_owned),
            otel_exporter_otlp_endpoint: standard.map(str::to_owned),
        };
        let of = |args, file: Option<&str>| {
            OtlpEndpoint::resolve(args, file.map(str::to_owned)).unwrap().map(|found| found.to_string())
        };
        assert_eq!(of(args(Some("http://a"), Some("http://b")), Some("http://c")).unwrap(), "http://a");
        assert_eq!(of(args(None, Some("http://b")), Some("http://c")).unwrap(), "http://b");
        assert_eq!(of(args(None, None), Some("http://c")).unwrap(), "http://c");
        assert_eq!(of(args(None, Some("")), None), None);
    }
}
