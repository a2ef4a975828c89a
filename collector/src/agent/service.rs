//! The requests of an agent to the server.

use std::path::PathBuf;
use std::time::Duration;

use diode_api::{
    AGENT_KEY, Agent, GivenBack, LeaseAnswer, LeaseRequest, LeaseSummary, PackSummary, Receipt, RefusedWork,
    Registration, Renewal,
};
use diode_core::ids::{AgentId, LeaseId};
use serde::de::DeserializeOwned;
use ureq::RequestBuilder;
use ureq::typestate::WithBody;

use crate::interrupt::Interrupt;
use crate::kernels::{PackCache, packs, pull};
use crate::server::{Answer, Answered, Client, Trouble, document, successful, wait_for};

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
        packs(&self.client, arch)
    }

    /// Pulls a pack and returns its file.
    pub(super) fn pull(&self, cache: &PackCache, pack: &PackSummary) -> Answered<PathBuf> {
        pull(&self.client, cache, pack)
    }

    fn posting(&self, agent: &Identity, path: &str) -> RequestBuilder<WithBody> {
        let Identity { id, key } = agent;
        self.client.posting(&format!("/agents/{id}/{path}")).header(AGENT_KEY, key)
    }
}

fn judged<T: DeserializeOwned>(answer: Result<Answer, ureq::Error>) -> Answered<T> {
    successful(answer).and_then(document)
}

/// Asks until the server answers. `None` if the agent is to stop before that.
pub(super) fn patiently<T>(
    interrupt: &Interrupt,
    mut ask: impl FnMut() -> Answered<T>,
) -> Option<Answered<T>> {
    let mut pause = FIRST_PAUSE;
    while !interrupt.requested() {
        match ask() {
            Err(Trouble::Away(error, asked)) => {
                let wait = wait_for(asked, pause);
                tell!(Warning, { "seconds": wait.as_secs() }, "{error:#}; trying again in {} s", wait.as_secs());
                interrupt.sleep(wait);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            other => return Some(other),
        }
    }
    None
}
