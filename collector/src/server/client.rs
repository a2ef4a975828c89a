use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use diode_core::api::{ApiError, TERMS_HEADER};
use diode_core::ids::Digest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::typestate::{WithBody, WithoutBody};
use ureq::{Agent, RequestBuilder};

use super::Address;
use super::versions::{PROGRAM_TOO_OLD, SERVER_TOO_OLD, refuse_old_servers, user_agent};
use crate::failure::Usage;

/// A large upload over a slow line, and the server storing it.
const TIMEOUT: Duration = Duration::from_secs(600);
/// A large file that comes over a slow line.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(3600);
/// Long enough for any network, short enough to wait for.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes from which on a server is asked whether it takes a file before it is sent. A refusal that comes
/// while a large file is on its way may be lost with the connection.
const ASK_FIRST: u64 = 1 << 20;

/// What a server answered.
pub(crate) type Answer = ureq::http::Response<ureq::Body>;

/// A way to a server. A proxy is taken from `HTTPS_PROXY` and its like.
pub(crate) struct Client {
    agent: Agent,
    address: Address,
    token: Option<String>,
    /// The version of the server's terms of contributing that requests agree to.
    agreed: Option<u32>,
}

impl Client {
    pub(super) fn new(address: Address, ca: Option<&Path>) -> anyhow::Result<Self> {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(TIMEOUT))
            .user_agent(user_agent())
            .middleware(refuse_old_servers);
        if let Some(ca) = ca {
            config = config.tls_config(TlsConfig::builder().root_certs(certificates(ca)?).build());
        }
        Ok(Self { agent: config.build().into(), address, token: None, agreed: None })
    }

    /// The same client, sending a token with every request.
    pub(crate) fn with_token(self, token: String) -> anyhow::Result<Self> {
        self.refuse_open_way()?;
        Ok(Self { token: Some(token), ..self })
    }

    /// The same client, whose requests agree to the terms of contributing.
    pub(super) fn agreeing(self, version: Option<u32>) -> Self {
        Self { agreed: version, ..self }
    }

    /// Fails if others could read a token on its way to the server.
    pub(crate) fn refuse_open_way(&self) -> Result<(), Usage> {
        if self.address.is_private() {
            return Ok(());
        }
        let address = &self.address;
        Err(Usage::new(format!("--server: got `{address}`, expected https://: others could read the token")))
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}/api/v1{path}", self.address)
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let answer = self.show(self.agent.get(self.url(path))).call();
        judge(self.reached(answer)?)
    }

    /// Asks for what is no JSON, or whose refusals differ.
    pub(super) fn getting(&self, path: &str) -> Result<Answer, ureq::Error> {
        self.show(self.agent.get(self.url(path))).call()
    }

    /// Asks for a large file.
    pub(super) fn getting_much(&self, path: &str) -> Result<Answer, ureq::Error> {
        patient(self.show(self.agent.get(self.url(path)))).call()
    }

    /// Asks for a large file from some byte on, if it is still the one with this digest.
    pub(super) fn getting_from(&self, path: &str, from: u64, sha256: &Digest) -> Result<Answer, ureq::Error> {
        let mut request = self.agent.get(self.url(path));
        if from > 0 {
            request = request.header("range", format!("bytes={from}-"));
            request = request.header("if-range", format!("\"{sha256}\""));
        }
        patient(self.show(request)).call()
    }

    pub(crate) fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> anyhow::Result<T> {
        judge(self.reached(self.post_json(path, body))?)
    }

    pub(crate) fn post_json(&self, path: &str, body: &impl Serialize) -> Result<Answer, ureq::Error> {
        self.posting(path).send_json(body)
    }

    pub(crate) fn post_file(&self, path: &str, bytes: &[u8]) -> Result<Answer, ureq::Error> {
        self.posting_bytes(path, bytes.len() as u64).send(bytes)
    }

    /// A request that still needs its body of so many bytes.
    pub(crate) fn posting_bytes(&self, path: &str, bytes: u64) -> RequestBuilder<WithBody> {
        let request = self.posting(path).content_type("application/octet-stream");
        if bytes > ASK_FIRST { request.header("expect", "100-continue") } else { request }
    }

    /// A request that still needs its body.
    pub(crate) fn posting(&self, path: &str) -> RequestBuilder<WithBody> {
        self.show(self.agent.post(self.url(path)))
    }

    pub(crate) fn delete(&self, path: &str) -> anyhow::Result<Answer> {
        self.reached(self.show(self.agent.delete(self.url(path))).call())
    }

    pub(crate) fn put(&self, path: &str, body: &impl Serialize) -> anyhow::Result<()> {
        let mut answer = self.reached(self.show(self.agent.put(self.url(path))).send_json(body))?;
        if answer.status().is_success() { Ok(()) } else { Err(refusal(&mut answer).1) }
    }

    fn show<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        let request = match self.agreed {
            Some(version) => request.header(TERMS_HEADER, version.to_string()),
            None => request,
        };
        match &self.token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    fn reached(&self, answer: Result<Answer, ureq::Error>) -> anyhow::Result<Answer> {
        answer.with_context(|| format!("cannot reach {}; is the server running?", self.address))
    }
}

/// With the time that a large file takes.
fn patient(request: RequestBuilder<WithoutBody>) -> RequestBuilder<WithoutBody> {
    let config = request.config().timeout_global(None).timeout_recv_response(Some(TIMEOUT));
    config.timeout_recv_body(Some(RECEIVE_TIMEOUT)).build()
}

fn certificates(path: &Path) -> anyhow::Result<RootCerts> {
    let unreadable = || format!("--ca: cannot read {}", path.display());
    let bytes = std::fs::read(path).with_context(unreadable)?;
    let mut certificates = Vec::new();
    for item in parse_pem(&bytes) {
        if let PemItem::Certificate(certificate) = item.with_context(unreadable)? {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        bail!("--ca: {} holds no certificate, expected PEM (-----BEGIN CERTIFICATE-----)", path.display());
    }
    Ok(RootCerts::Specific(Arc::new(certificates)))
}

/// The document of a successful answer; for any other answer an error with the server's message.
pub(crate) fn judge<T: DeserializeOwned>(mut answer: Answer) -> anyhow::Result<T> {
    if answer.status().is_success() {
        return answer.body_mut().read_json().context("the answer is not understood; is it a Diode server?");
    }
    Err(refusal(&mut answer).1)
}

/// How long the server asks to wait before another attempt, if it says so in seconds.
pub(crate) fn retry_after(answer: &Answer) -> Option<Duration> {
    let seconds = answer.headers().get("retry-after")?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// How long to wait before another attempt: as long as the server asks, but not for ever.
pub(crate) fn wait_for(asked: Option<Duration>, otherwise: Duration) -> Duration {
    /// The longest window of a limit that a program runs into.
    const LONGEST: Duration = Duration::from_secs(900);
    asked.map_or(otherwise, |asked| asked.min(LONGEST).max(otherwise))
}

/// Why a server refused: the code for programs, and the words.
pub(crate) fn refusal(answer: &mut Answer) -> (String, anyhow::Error) {
    let status = answer.status();
    match answer.body_mut().read_json::<ApiError>() {
        // Both say what to do.
        Ok(ApiError { code, message }) if [PROGRAM_TOO_OLD, SERVER_TOO_OLD].contains(&code.as_str()) => {
            (code, anyhow::anyhow!("{message}"))
        }
        Ok(error) => {
            let words = anyhow::anyhow!(
                "the server refused it: {} ({}, {})",
                error.message,
                error.code,
                status.as_u16()
            );
            (error.code, words)
        }
        Err(_) => (String::new(), anyhow::anyhow!("the server answered {status}; is it a Diode server?")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_ask_for_patience_but_not_for_days() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        assert_eq!(wait_for(None, second), second);
        assert_eq!(wait_for(Some(minute), second), minute);
        assert_eq!(wait_for(Some(Duration::ZERO), second), second);
        assert_eq!(wait_for(Some(Duration::from_secs(u64::MAX)), second), Duration::from_secs(900));
    }
}
