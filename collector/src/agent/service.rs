use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use diode_api::{
    AGENT_KEY, Agent, GivenBack, LeaseAnswer, LeaseRequest, LeaseSummary, PackSummary, Receipt, RefusedWork,
    Registration, Renewal,
};
use diode_core::ids::{AgentId, LeaseId};
use serde::de::DeserializeOwned;
use ureq::RequestBuilder;
use ureq::typestate::WithBody;

use crate::agent::limits::Stop;
use crate::kernels::{NoPack, PackCache, packs, pull};
use crate::server::{Answer, Client, refusal, retry_after, wait_for};

/// The pause before the second attempt. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause. The server may be away for hours. With long pauses, not all agents ask in the second
/// in which it is back.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The requests of an agent to the server.
pub(crate) struct Service {
    client: Client,
}

/// What identifies an agent to the server.
pub(super) struct Identity {
    id: AgentId,
    /// Proves that a request comes from the agent.
    key: String,
}

/// Why the server did not do what it was asked.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The server cannot be reached or is busy. Trying again helps, after the given time if the server named
    /// one.
    Away(anyhow::Error, Option<Duration>),
    /// The lease has ended or belongs to another agent.
    Ended,
    /// The server does not know the agent or the pack, for example because its database was replaced.
    Unknown,
    /// The server cannot store what was sent.
    Refused(anyhow::Error),
    /// Trying again does not help.
    Fatal(anyhow::Error),
}

pub(super) type Answered<T> = Result<T, Trouble>;

impl Service {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    pub(super) fn register(&self, registration: &Registration) -> Answered<Identity> {
        let agent: Agent = judged(self.client.post_json("/agents", registration))?;
        Ok(Identity { id: agent.id, key: registration.key.clone() })
    }

    pub(super) fn lease(&self, agent: &Identity, seconds: f64) -> Answered<LeaseAnswer> {
        judged(self.posting(agent, "leases").send_json(LeaseRequest { seconds }))
    }

    pub(super) fn renew(&self, agent: &Identity, lease: &LeaseId) -> Answered<Renewal> {
        judged(self.posting(agent, &format!("leases/{lease}/renewal")).send_json(()))
    }

    pub(super) fn deliver(&self, agent: &Identity, lease: &LeaseId, bytes: &[u8]) -> Answered<Receipt> {
        let request = self.posting(agent, &format!("leases/{lease}/results"));
        judged(request.content_type("application/octet-stream").send(bytes))
    }

    pub(super) fn end(
        &self,
        agent: &Identity,
        lease: &LeaseId,
        refused: Vec<RefusedWork>,
    ) -> Answered<LeaseSummary> {
        judged(self.posting(agent, &format!("leases/{lease}/end")).send_json(GivenBack { refused }))
    }

    /// The server's kernel packs for an architecture.
    pub(super) fn packs(&self, arch: &str) -> Answered<Vec<PackSummary>> {
        Ok(packs(&self.client, Some(arch))?)
    }

    /// Pulls a pack and returns its file.
    pub(super) fn pull(&self, cache: &PackCache, pack: &PackSummary) -> Answered<PathBuf> {
        Ok(pull(&self.client, cache, pack)?)
    }

    fn posting(&self, agent: &Identity, path: &str) -> RequestBuilder<WithBody> {
        let Identity { id, key } = agent;
        self.client.posting(&format!("/agents/{id}/{path}")).header(AGENT_KEY, key)
    }
}

impl From<NoPack> for Trouble {
    fn from(error: NoPack) -> Self {
        match error {
            NoPack::Away(error, asked) => Self::Away(error, asked),
            NoPack::Gone(_) => Self::Unknown,
            NoPack::Refused(error) => Self::Fatal(error),
        }
    }
}

impl From<Trouble> for anyhow::Error {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Away(error, _) | Trouble::Refused(error) | Trouble::Fatal(error) => error,
            Trouble::Ended | Trouble::Unknown => {
                anyhow!("the server does not know what it gave out before")
            }
        }
    }
}

fn judged<T: DeserializeOwned>(answer: Result<Answer, ureq::Error>) -> Answered<T> {
    let mut answer = match answer {
        Ok(answer) => answer,
        Err(error @ ureq::Error::BadUri(_)) => return Err(Trouble::Fatal(error.into())),
        // A network can fail in many ways, and most failures pass.
        Err(error) => {
            return Err(away(anyhow::Error::new(error).context("the server cannot be reached")));
        }
    };
    let status = answer.status().as_u16();
    if answer.status().is_success() {
        return answer.body_mut().read_json().map_err(not_understood);
    }
    let asked = retry_after(&answer);
    let (code, words) = refusal(&mut answer);
    Err(match status {
        // The user must agree to the new terms of contributing.
        409 if code == "terms_changed" => Trouble::Fatal(words),
        400 | 413 | 415 | 422 => Trouble::Refused(words),
        404 => Trouble::Unknown,
        409 => Trouble::Ended,
        408 | 429 | 500.. => Trouble::Away(words, asked),
        _ => Trouble::Fatal(words),
    })
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
    away(error.context("the answer is not understood"))
}

fn away(error: anyhow::Error) -> Trouble {
    Trouble::Away(error, None)
}

/// Asks until the server answers. `None` if the agent is to stop before that.
pub(super) fn patiently<T>(stop: &Stop, mut ask: impl FnMut() -> Answered<T>) -> Option<Answered<T>> {
    let mut pause = FIRST_PAUSE;
    while !stop.requested() {
        match ask() {
            Err(Trouble::Away(error, asked)) => {
                let wait = wait_for(asked, pause);
                tell!(Warning, { "seconds": wait.as_secs() }, "{error:#}; trying again in {} s", wait.as_secs());
                stop.sleep(wait);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            other => return Some(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_another_version_is_told_from_one_that_breaks_off() {
        let error = |text: &str| ureq::Error::Json(serde_json::from_str::<Renewal>(text).unwrap_err());
        let Trouble::Fatal(told) = not_understood(error(r#"{"expires": 3}"#)) else {
            panic!("it is tried again")
        };
        assert!(told.to_string().contains("update the older of the two"), "{told}");
        for text in ["{\"expires_in\": 1", "<html>", ""] {
            assert!(matches!(not_understood(error(text)), Trouble::Away(..)), "{text}");
        }
    }
}
