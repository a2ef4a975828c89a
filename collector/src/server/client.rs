//! Requests to a server, and what its answers mean.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use diode_api::{ApiError, OLDEST_SERVER, PROGRAM, SERVER_HEADER, TERMS_HEADER, Version};
use diode_core::ids::Digest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::{Request, Response, StatusCode};
use ureq::middleware::MiddlewareNext;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::typestate::{WithBody, WithoutBody};
use ureq::{Agent, Body, RequestBuilder, SendBody};

use crate::failure::Usage;
use crate::output::log::Progress;
use crate::server::Address;

/// How long a request may take: enough to send a large upload over a slow line and to store it.
const TIMEOUT: Duration = Duration::from_secs(600);
/// How long a download may take: enough for a large file over a slow line.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(3600);
/// How long connecting may take: enough for any network, and short enough to wait for.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// For files of more bytes than this, the server is asked first whether it takes the file. Otherwise the
/// server's refusal could be lost with the connection while the file is being sent.
const ASK_FIRST: u64 = 1 << 20;

/// The answer of a server.
pub(crate) type Answer = Response<Body>;

/// A connection to a server. The proxy is the one in `HTTPS_PROXY` or a similar variable.
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

    /// The same client with a token, which it sends with every request.
    pub(crate) fn with_token(self, token: String) -> anyhow::Result<Self> {
        self.refuse_open_way()?;
        Ok(Self { token: Some(token), ..self })
    }

    /// The same client with an agreement to the terms of contributing, which it sends with every
    /// request.
    pub(super) fn agreeing(self, version: Option<u32>) -> Self {
        Self { agreed: version, ..self }
    }

    /// Refuses an address to which others could read a token on its way.
    pub(crate) fn refuse_open_way(&self) -> Result<(), Usage> {
        if self.address.is_private() {
            return Ok(());
        }
        let address = &self.address;
        Err(Usage::new(format!("--server: got `{address}`, expected https://: others could read the token")))
    }

    /// Whether requests carry a token.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
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

    /// Asks for a document that is not JSON, or whose refusals the caller handles.
    pub(crate) fn getting(&self, path: &str) -> Result<Answer, ureq::Error> {
        self.show(self.agent.get(self.url(path))).call()
    }

    /// Asks for a large file.
    pub(crate) fn getting_much(&self, path: &str) -> Result<Answer, ureq::Error> {
        patient(self.show(self.agent.get(self.url(path)))).call()
    }

    /// Asks for a large file from byte `from` on, if the file still has this digest.
    pub(crate) fn getting_from(&self, path: &str, from: u64, sha256: &Digest) -> Result<Answer, ureq::Error> {
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

    /// Posts so many bytes, and shows how far it is.
    pub(crate) fn post_bytes(
        &self,
        path: &str,
        query: &[(&str, &str)],
        bytes: u64,
        content: impl Read,
    ) -> Result<Answer, ureq::Error> {
        let request = self.posting(path).content_type("application/octet-stream");
        let request = request.query_pairs(query.iter().copied());
        let request = request.header("content-length", bytes.to_string());
        let request = if bytes > ASK_FIRST { request.header("expect", "100-continue") } else { request };
        let mut progress = Progress::of_bytes(bytes);
        request.send(SendBody::from_reader(&mut progress.watch(content, 0)))
    }

    /// A request that still lacks its body.
    pub(crate) fn posting(&self, path: &str) -> RequestBuilder<WithBody> {
        self.show(self.agent.post(self.url(path)))
    }

    pub(crate) fn delete(&self, path: &str) -> anyhow::Result<Answer> {
        self.reached(self.show(self.agent.delete(self.url(path))).call())
    }

    pub(crate) fn put(&self, path: &str, body: &impl Serialize) -> anyhow::Result<()> {
        done(self.reached(self.show(self.agent.put(self.url(path))).send_json(body))?)
    }

    /// Posts something to which a successful answer says no more.
    pub(crate) fn post_wish(&self, path: &str, body: &impl Serialize) -> anyhow::Result<()> {
        done(self.reached(self.post_json(path, body))?)
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

/// Gives a request the time that a large file takes.
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

/// The document of a successful answer. For other answers, an error with the server's message.
pub(crate) fn judge<T: DeserializeOwned>(mut answer: Answer) -> anyhow::Result<T> {
    if answer.status().is_success() {
        return answer.body_mut().read_json().context("the answer is not understood; is it a Diode server?");
    }
    Err(refusal(&mut answer).1)
}

/// Whether a server did what it was asked, where its answer says no more. The page of a proxy or a portal is not its
/// answer: every answer of a server names its version.
fn done(mut answer: Answer) -> anyhow::Result<()> {
    if !answer.status().is_success() {
        return Err(refusal(&mut answer).1);
    }
    if !answer.headers().contains_key(SERVER_HEADER) {
        bail!("something answered {} that is no Diode server, such as a proxy or a portal", answer.status());
    }
    Ok(())
}

/// Why the server did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The server cannot be reached or is busy. Trying again helps, after the given time if the server named
    /// one.
    Away(anyhow::Error, Option<Duration>),
    /// The server does not have what was asked for, for example because its database was replaced.
    Unknown(anyhow::Error),
    /// The lease has ended or belongs to another agent.
    Ended(anyhow::Error),
    /// The server cannot store what was sent.
    Refused(anyhow::Error),
    /// Trying again does not help.
    Fatal(anyhow::Error),
}

pub(crate) type Answered<T> = Result<T, Trouble>;

impl From<anyhow::Error> for Trouble {
    fn from(error: anyhow::Error) -> Self {
        Self::Fatal(error)
    }
}

impl From<Trouble> for anyhow::Error {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Away(error, _)
            | Trouble::Unknown(error)
            | Trouble::Ended(error)
            | Trouble::Refused(error)
            | Trouble::Fatal(error) => error,
        }
    }
}

/// The answer, if the server did what it was asked.
pub(crate) fn successful(answer: Result<Answer, ureq::Error>) -> Answered<Answer> {
    let mut answer = match answer {
        Ok(answer) => answer,
        Err(error @ ureq::Error::BadUri(_)) => return Err(Trouble::Fatal(error.into())),
        // A network can fail in many ways, and most failures pass.
        Err(error) => {
            return Err(Trouble::Away(
                anyhow::Error::new(error).context("the server cannot be reached"),
                None,
            ));
        }
    };
    if answer.status().is_success() {
        return Ok(answer);
    }
    let (status, asked) = (answer.status().as_u16(), retry_after(&answer));
    let (code, words) = refusal(&mut answer);
    Err(match status {
        // The user must agree to the new terms of contributing.
        409 if code == "terms_changed" => Trouble::Fatal(words),
        400 | 413 | 415 | 422 => Trouble::Refused(words),
        404 => Trouble::Unknown(words),
        409 => Trouble::Ended(words),
        408 | 429 | 500.. => Trouble::Away(words, asked),
        _ => Trouble::Fatal(words),
    })
}

/// The document of a successful answer.
pub(crate) fn document<T: DeserializeOwned>(mut answer: Answer) -> Answered<T> {
    answer.body_mut().read_json().map_err(not_understood)
}

/// A connection may break off within an answer, and a proxy may answer instead of the server. Both pass, so
/// asking again helps. It does not help if the answer is a whole JSON document with other fields.
fn not_understood(error: ureq::Error) -> Trouble {
    let is_another = matches!(&error, ureq::Error::Json(error) if error.is_data());
    let error = anyhow::Error::new(error);
    if is_another {
        let version = env!("CARGO_PKG_VERSION");
        let words =
            format!("the server's answer is not that of diode {version}; update the older of the two");
        return Trouble::Fatal(error.context(words));
    }
    Trouble::Away(error.context("the answer is not understood"), None)
}

/// How long the server asks to wait before another attempt, if it states that in seconds.
fn retry_after(answer: &Answer) -> Option<Duration> {
    let seconds = answer.headers().get("retry-after")?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// How long to wait before another attempt: as long as the server asks, up to a limit.
pub(crate) fn wait_for(asked: Option<Duration>, otherwise: Duration) -> Duration {
    /// The longest window of any limit that a program can meet.
    const LONGEST: Duration = Duration::from_secs(900);
    asked.map_or(otherwise, |asked| asked.min(LONGEST).max(otherwise))
}

/// Why a server refused a request: the code for programs, and the message.
pub(crate) fn refusal(answer: &mut Answer) -> (String, anyhow::Error) {
    let status = answer.status();
    match answer.body_mut().read_json::<ApiError>() {
        // The messages for these two codes already say what to do.
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

/// The code that stands in for any answer of a server that is too old.
const SERVER_TOO_OLD: &str = "server_too_old";
/// The code with which a server answers a program that is too old.
const PROGRAM_TOO_OLD: &str = "program_too_old";

/// The name and version of this program, as requests state them.
fn user_agent() -> String {
    format!("{PROGRAM}/{}", env!("CARGO_PKG_VERSION"))
}

/// Replaces the answer of a server that is too old by a refusal, because the answer may mean something else. An answer
/// without the server's version, such as from a proxy, is left as it is.
fn refuse_old_servers(
    request: Request<SendBody<'_>>,
    next: MiddlewareNext<'_>,
) -> Result<Response<Body>, ureq::Error> {
    let answer = next.handle(request)?;
    let named = answer.headers().get(SERVER_HEADER).and_then(|value| value.to_str().ok());
    let Some(version) = named.and_then(|named| named.parse::<Version>().ok()) else { return Ok(answer) };
    if version >= OLDEST_SERVER {
        return Ok(answer);
    }
    let message = format!(
        "the server is too old for diode {}: got {version}, expected {OLDEST_SERVER} or newer; whoever runs it must \
         update it",
        env!("CARGO_PKG_VERSION")
    );
    let refusal = ApiError { code: SERVER_TOO_OLD.to_owned(), message };
    let body =
        Body::builder().mime_type("application/json").data(serde_json::to_vec(&refusal).unwrap_or_default());
    Response::builder().status(StatusCode::UPGRADE_REQUIRED).body(body).map_err(ureq::Error::from)
}

/// How often to try while the server cannot be reached or is busy.
const ATTEMPTS: u32 = 4;
/// The pause before the second attempt. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Sends until the server accepts or refuses. Only for requests that may be repeated: a server recognises a
/// file by its digest.
pub(crate) fn send<T: DeserializeOwned>(
    url: &str,
    post: impl Fn() -> Result<Answer, ureq::Error>,
) -> anyhow::Result<T> {
    let mut pause = FIRST_PAUSE;
    let mut attempt = 1;
    loop {
        let (trouble, asked) = match post() {
            Ok(response) if !matches!(response.status().as_u16(), 429 | 502 | 503 | 504) => {
                return judge(response);
            }
            Ok(mut response) => {
                let asked = retry_after(&response);
                (refusal(&mut response).1, asked)
            }
            Err(error) if is_passing(&error) => {
                let words = format!("cannot reach {url}; is the server running?");
                (anyhow::Error::new(error).context(words), None)
            }
            Err(error) => return Err(error).with_context(|| format!("cannot send to {url}")),
        };
        if attempt == ATTEMPTS {
            return Err(trouble.context(format!("gave up after {ATTEMPTS} attempts")));
        }
        let wait = wait_for(asked, pause);
        say!("{trouble:#}; trying again in {:.1} s", wait.as_secs_f64());
        thread::sleep(wait);
        pause *= 2;
        attempt += 1;
    }
}

/// Whether another attempt may succeed after this error.
fn is_passing(error: &ureq::Error) -> bool {
    matches!(error, ureq::Error::Io(_) | ureq::Error::ConnectionFailed | ureq::Error::Timeout(_))
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

    #[test]
    fn an_answer_of_another_version_is_told_from_one_that_breaks_off() {
        let error =
            |text: &str| ureq::Error::Json(serde_json::from_str::<diode_api::Renewal>(text).unwrap_err());
        let Trouble::Fatal(told) = not_understood(error(r#"{"expires": 3}"#)) else {
            panic!("it is tried again")
        };
        assert!(told.to_string().contains("update the older of the two"), "{told}");
        for text in ["{\"expires_in\": 1", "<html>", ""] {
            assert!(matches!(not_understood(error(text)), Trouble::Away(..)), "{text}");
        }
    }
}
