use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use anyhow::{anyhow, bail};
use diode_core::api::{Lease, RefusedWork, Registration, Work};
use diode_core::hardware::Hardware;
use diode_core::{Config, Provenance};

use super::configs::configs;
use super::health::Health;
use super::outbox::Outbox;
use super::renewal::Renewal;
use super::service::{Identity, Service, Trouble, patiently};
use super::stop::Stop;
use crate::collect::solved::dataset_of;
use crate::devices::meter::{Meter, Outcome};

/// One device that measures what the server asks for.
pub(crate) struct Worker<'a> {
    service: &'a Service,
    stop: &'a Stop,
    health: &'a Health,
    meter: Box<dyn Meter>,
    hardware: Hardware,
    provenance: Provenance,
    /// Whether the vendor's library is there to be timed too.
    library: bool,
    registration: Registration,
    outbox: Outbox,
    tally: Tally,
}

/// What a device has done.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) leases: usize,
    pub(crate) measured: usize,
    pub(crate) refused: usize,
    /// Results that are on disk, for the next start.
    pub(crate) unsent: usize,
}

/// How a worker's device is known.
pub(crate) struct DeviceFacts {
    pub(crate) meter: Box<dyn Meter>,
    pub(crate) hardware: Hardware,
    pub(crate) provenance: Provenance,
    pub(crate) library: bool,
    pub(crate) registration: Registration,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        (service, stop, health): (&'a Service, &'a Stop, &'a Health),
        device: DeviceFacts,
        outbox: &std::path::Path,
    ) -> anyhow::Result<Self> {
        let DeviceFacts { meter, hardware, provenance, library, registration } = device;
        let outbox = Outbox::open(outbox)?;
        let tally = Tally::default();
        Ok(Self { service, stop, health, meter, hardware, provenance, library, registration, outbox, tally })
    }

    /// Works until the agent is to stop, or with `once` until one lease has ended. Each lease is to take about so
    /// many seconds.
    pub(crate) fn run(&mut self, seconds: f64, once: bool) -> anyhow::Result<Tally> {
        let Some(mut agent) = self.register()? else { return Ok(self.tally()) };
        while !self.stop.requested() {
            // What an earlier process has measured, or what could not be sent before.
            if self.outbox.len() > 0 {
                self.note("sending results");
                if !self.send_patiently(&mut agent)? {
                    break;
                }
            }
            self.note("asking for work");
            let Some(answer) = patiently(self.stop, || self.service.lease(&agent, seconds)) else { break };
            match answer {
                Ok(answer) => match answer.lease {
                    Some(lease) => {
                        self.work_on(&agent, lease)?;
                        self.tally.leases += 1;
                        if once {
                            break;
                        }
                    }
                    None if once => {
                        say!("{}: the server has no work for it", self.registration.name);
                        break;
                    }
                    None => {
                        self.note("waiting for work");
                        self.stop.sleep(Duration::from_secs(answer.ask_again.max(1)));
                    }
                },
                Err(Trouble::Unknown) => match self.register()? {
                    Some(known) => agent = known,
                    None => break,
                },
                Err(trouble) => return Err(fatal(trouble)),
            }
        }
        // Once more, without waiting for a server that is away.
        let sent = self.outbox.send(self.service, &agent)?;
        if let Err(Trouble::Fatal(error)) = sent {
            return Err(error);
        }
        self.note("ended");
        Ok(self.tally())
    }

    fn tally(&self) -> Tally {
        Tally { unsent: self.outbox.len(), ..self.tally }
    }

    fn note(&self, doing: &'static str) {
        self.health.note(&self.registration.name, doing, self.tally.measured, self.outbox.len());
    }

    /// `None` if the agent is to stop before the server answers.
    fn register(&self) -> anyhow::Result<Option<Identity>> {
        self.note("registering");
        match patiently(self.stop, || self.service.register(&self.registration)) {
            None => Ok(None),
            Some(Ok(agent)) => Ok(Some(agent)),
            Some(Err(Trouble::Unknown)) => {
                bail!("the server knows no agents; it is older than this program, or no Diode server")
            }
            Some(Err(trouble)) => Err(fatal(trouble)),
        }
    }

    /// Sends what waits; `false` if the agent is to stop before that is done.
    fn send_patiently(&mut self, agent: &mut Identity) -> anyhow::Result<bool> {
        loop {
            let (outbox, mut failed) = (&mut self.outbox, None);
            let sent = patiently(self.stop, || match outbox.send(self.service, agent) {
                Ok(answered) => answered,
                Err(error) => {
                    failed = Some(error);
                    Ok(())
                }
            });
            if let Some(error) = failed {
                return Err(error);
            }
            match sent {
                None => return Ok(false),
                Some(Ok(())) => return Ok(true),
                Some(Err(Trouble::Unknown)) => match self.register()? {
                    Some(known) => *agent = known,
                    None => return Ok(false),
                },
                Some(Err(trouble)) => return Err(fatal(trouble)),
            }
        }
    }

    /// Measures the problems of a lease, and gives back what it did not come to.
    fn work_on(&mut self, agent: &Identity, lease: Lease) -> anyhow::Result<()> {
        let (service, lost) = (self.service, AtomicBool::new(false));
        let measured = thread::scope(|scope| {
            let renewal = Renewal::start(scope, (service, agent, &lease.id), lease.expires_in, &lost);
            self.measure_all(agent, &lease, &renewal)
        });
        let (refused, failure) = match measured {
            Ok(refused) => (refused, None),
            // The device has failed; the lease goes back all the same.
            Err(error) => (Vec::new(), Some(error)),
        };
        if self.outbox.len() == 0 || self.stop.requested() || failure.is_some() {
            // Everything that was measured has arrived, or is sent after the lease's end. If nothing is left,
            // the lease has ended already.
            match self.service.end(agent, &lease.id, refused) {
                Err(Trouble::Away(error, _)) => say!("the lease could not be given back: {error:#}"),
                Err(Trouble::Fatal(error)) => return Err(error),
                Ok(_) | Err(Trouble::Ended | Trouble::Unknown | Trouble::Refused(_)) => {}
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Returns what the device cannot measure.
    fn measure_all(
        &mut self,
        agent: &Identity,
        lease: &Lease,
        renewal: &Renewal<'_>,
    ) -> anyhow::Result<Vec<RefusedWork>> {
        let mut refused = Vec::new();
        for work in &lease.work {
            if self.stop.requested() || renewal.is_lost() {
                break;
            }
            self.note("measuring");
            if let Some(reason) = self.measure(lease, work)? {
                say!(
                    "{} cannot measure {} {}: {reason}",
                    self.registration.name,
                    work.problem.op,
                    work.problem.dims()
                );
                refused.push(RefusedWork { problem: work.problem.id(), reason });
                self.tally.refused += 1;
            }
            // If the server is away, the result waits for the next one.
            match self.outbox.send(self.service, agent)? {
                Ok(()) | Err(Trouble::Away(..) | Trouble::Unknown | Trouble::Ended) => {}
                Err(trouble) => return Err(fatal(trouble)),
            }
        }
        Ok(refused)
    }

    /// Measures one problem into the outbox. Returns why the device cannot, if so.
    fn measure(&mut self, lease: &Lease, work: &Work) -> anyhow::Result<Option<String>> {
        let mut configs = match configs(&self.hardware, work) {
            Ok(configs) => configs,
            Err(reason) => return Ok(Some(reason.to_string())),
        };
        configs.extend(self.library.then_some(Config::Library));
        match self.meter.measure(&work.problem, &configs, &|| self.stop.insisted())? {
            Outcome::Measured { measured, .. } if measured.timed.is_empty() && measured.failed.is_empty() => {
                Ok(Some("there are no configs for it".to_owned()))
            }
            Outcome::Measured { measured, .. } => {
                let method = self.meter.method();
                let (hardware, provenance) = (self.hardware.clone(), self.provenance.clone());
                let result = dataset_of((hardware, provenance), work.problem.clone(), method, measured)?;
                self.outbox.add(&lease.id, result)?;
                self.tally.measured += 1;
                Ok(None)
            }
            Outcome::Refused(reason) => Ok(Some(reason)),
            Outcome::Abandoned => Ok(None),
        }
    }
}

/// What ends a worker.
fn fatal(trouble: Trouble) -> anyhow::Error {
    match trouble {
        Trouble::Away(error, _) | Trouble::Refused(error) | Trouble::Fatal(error) => error,
        Trouble::Ended | Trouble::Unknown => anyhow!("the server does not know what it gave out before"),
    }
}
