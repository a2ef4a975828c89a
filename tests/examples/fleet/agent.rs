use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use diode_api::{
    AGENT_KEY, Ability, GivenBack, Lease, LeaseAnswer, LeaseRequest, LeasedProblem, Receipt, Registration,
};
use diode_core::hardware::Hardware;
use diode_core::ids::LeaseId;
use diode_core::simulated::SimulatedDevice;
use diode_core::{DType, Layout, Op};
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::StatusCode;

use crate::results::encoded;
use crate::tally::Tally;

/// The length of lease that `diode agent` asks for.
const LEASE_SECONDS: f64 = 120.0;

/// How often an agent asks before it gives up.
const TRIES: usize = 30;

/// A sleeping agent checks this often whether it must stop.
const LOOK: Duration = Duration::from_millis(500);

/// One agent with one device.
pub(crate) struct Agent {
    number: usize,
    hardware: Hardware,
    device: SimulatedDevice,
    server: String,
    token: Option<String>,
    client: ureq::Agent,
    tally: Arc<Tally>,
    stop: Arc<AtomicBool>,
}

impl Agent {
    pub(crate) fn new(
        number: usize,
        hardware: Hardware,
        server: &str,
        token: Option<String>,
        tally: &Arc<Tally>,
        stop: &Arc<AtomicBool>,
    ) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        Self {
            number,
            device: SimulatedDevice::new(hardware.clone(), number as u64),
            hardware,
            server: server.to_owned(),
            token,
            client: config.into(),
            tally: Arc::clone(tally),
            stop: Arc::clone(stop),
        }
    }

    /// Measures until `stop` is set.
    pub(crate) fn work(&mut self) -> anyhow::Result<()> {
        let known: diode_api::Agent = expect(self.post("", &self.registration())?)?;
        let leases = format!("/{}/leases", known.id);
        while !self.stopped() {
            let asked = Instant::now();
            let answer = self.post(&leases, &LeaseRequest { seconds: LEASE_SECONDS })?;
            self.tally.leased(asked.elapsed());
            let answer: LeaseAnswer = expect(answer)?;
            match answer.lease {
                Some(lease) => self.measure(&leases, &lease)?,
                None => {
                    self.tally.idle(answer.ask_again);
                    self.sleep_until(Instant::now() + Duration::from_secs(answer.ask_again));
                }
            }
        }
        Ok(())
    }

    fn measure(&self, leases: &str, lease: &Lease) -> anyhow::Result<()> {
        let contributor = self.token.is_some();
        self.tally.handed_out(&self.hardware.slug, contributor, &lease.work);
        let path = format!("{leases}/{}", lease.id);
        let renew_every = Duration::from_secs(lease.expires_in / 3);
        let (mut due, mut renewed) = (Instant::now(), Instant::now());
        for work in &lease.work {
            // A real device that waits for the server starts its next problem late, too.
            due = due.max(Instant::now() - LOOK) + Duration::from_secs_f64(work.seconds);
            while self.sleep_until(due.min(renewed + renew_every)) && Instant::now() < due {
                expect_status(self.post(&format!("{path}/renewal"), &())?)?;
                renewed = Instant::now();
            }
            if self.stopped() {
                self.tally.given_back(&self.hardware.slug, &lease.work);
                break;
            }
            self.deliver(&path, &lease.id, work)?;
        }
        // `diode agent` ends every lease, too. Most leases have already ended with their last result, so
        // the answer is a conflict.
        let ended = self.post(&format!("{path}/end"), &GivenBack::default())?;
        if ended.status() != StatusCode::CONFLICT {
            expect_status(ended)?;
        }
        Ok(())
    }

    fn deliver(&self, path: &str, lease: &LeaseId, work: &LeasedProblem) -> anyhow::Result<()> {
        let bytes = encoded(&self.hardware, &self.device, work, lease)?;
        let sent = Instant::now();
        let path = format!("{path}/results");
        let send = || self.request(&path).content_type("application/octet-stream").send(&bytes[..]);
        let _: Receipt = expect(self.insist(send)?)?;
        self.tally.accepted(&self.hardware.slug, work, bytes.len(), sent.elapsed());
        Ok(())
    }

    /// Returns `false` if the agent must stop.
    fn sleep_until(&self, moment: Instant) -> bool {
        while !self.stopped() {
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(LOOK));
        }
        false
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn key(&self) -> String {
        format!("agent-of-the-fleet-{}", self.number)
    }

    fn registration(&self) -> Registration {
        Registration {
            key: self.key(),
            name: format!("fleet, {}", self.number),
            hardware: self.hardware.clone(),
            ability: Ability {
                ops: Op::ALL.to_vec(),
                dtypes: vec![DType::BFloat16, DType::Float16, DType::Float32],
                layouts: Layout::ALL.to_vec(),
                unaligned: true,
                memory_bytes: 8 << 30,
                variants: None,
            },
            tool: concat!("fleet ", env!("CARGO_PKG_VERSION")).to_owned(),
            node: BTreeMap::new(),
        }
    }

    fn request(&self, path: &str) -> ureq::RequestBuilder<ureq::typestate::WithBody> {
        let request = self.client.post(format!("{}/api/v1/agents{path}", self.server));
        match &self.token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request.header(AGENT_KEY, self.key()),
        }
    }

    fn post(&self, path: &str, body: &impl Serialize) -> anyhow::Result<Answer> {
        self.insist(|| self.request(path).send_json(body)).with_context(|| path.to_owned())
    }

    /// Repeats a request while the server is busy or has closed an idle connection. Every request may be
    /// repeated safely.
    fn insist(&self, ask: impl Fn() -> Result<Answer, ureq::Error>) -> anyhow::Result<Answer> {
        for _ in 0..TRIES {
            match ask() {
                Ok(answer) if !matches!(answer.status().as_u16(), 408 | 429 | 500..) => return Ok(answer),
                Ok(_) => {
                    self.tally.busy();
                    thread::sleep(Duration::from_secs(1));
                }
                Err(ureq::Error::Io(_)) => self.tally.broken_off(),
                Err(error) => return Err(error.into()),
            }
        }
        bail!("no answer after {TRIES} tries")
    }
}

type Answer = ureq::http::Response<ureq::Body>;

fn expect<T: DeserializeOwned>(answer: Answer) -> anyhow::Result<T> {
    Ok(expect_status(answer)?.body_mut().read_json()?)
}

fn expect_status(mut answer: Answer) -> anyhow::Result<Answer> {
    if answer.status().is_success() {
        return Ok(answer);
    }
    bail!("the server answered {}: {}", answer.status(), answer.body_mut().read_to_string()?)
}
