use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use anyhow::bail;
use diode_core::api::{Lease, Reach, RefusedWork, Registration, Work};
use diode_core::hardware::Hardware;
use diode_core::{Config, Provenance};

use super::configs::configs;
use super::health::{Device, Health};
use super::kernels::Kernels;
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
    kernels: Option<&'a Kernels>,
    /// The packs that the device launches from.
    packs: Vec<PathBuf>,
    outbox: Outbox,
    tally: Tally,
}

/// What a device has done.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) leases: usize,
    pub(crate) measured: usize,
    pub(crate) refused: usize,
    /// How long a GPU spent in timed kernels and flushes.
    pub(crate) kernels: Duration,
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
    /// The packs that it was started with.
    pub(crate) packs: Vec<PathBuf>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        (service, stop, health): (&'a Service, &'a Stop, &'a Health),
        kernels: Option<&'a Kernels>,
        device: DeviceFacts,
        outbox: &Path,
    ) -> anyhow::Result<Self> {
        let DeviceFacts { meter, hardware, provenance, library, registration, packs } = device;
        let outbox = Outbox::open(outbox)?;
        Ok(Self {
            service,
            stop,
            health,
            meter,
            hardware,
            provenance,
            library,
            registration,
            kernels,
            packs,
            outbox,
            tally: Tally::default(),
        })
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
                Err(trouble) => return Err(trouble.into()),
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
        let Tally { measured, kernels, .. } = self.tally;
        let (unsent, kernel_seconds) = (self.outbox.len(), kernels.as_secs_f64());
        self.health.note(&self.registration.name, Device { doing, measured, unsent, kernel_seconds });
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
            Some(Err(trouble)) => Err(trouble.into()),
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
                Some(Err(trouble)) => return Err(trouble.into()),
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
        if !self.get_kernels(lease)? {
            return Ok(refused);
        }
        for work in &lease.work {
            if self.stop.requested() || renewal.is_lost() {
                break;
            }
            self.note("measuring");
            if let Some((reason, reach)) = self.measure(lease, work)? {
                say!(
                    "{} cannot measure {} {}: {reason}",
                    self.registration.name,
                    work.problem.op,
                    work.problem.dims()
                );
                refused.push(RefusedWork { problem: work.problem.id(), reason, reach });
                self.tally.refused += 1;
            }
            // If the server is away, the result waits for the next one.
            match self.outbox.send(self.service, agent)? {
                Ok(()) | Err(Trouble::Away(..) | Trouble::Unknown | Trouble::Ended) => {}
                Err(trouble) => return Err(trouble.into()),
            }
        }
        Ok(refused)
    }

    /// Has the device use the packs that a lease needs; `false` if the agent is to stop before they are there.
    fn get_kernels(&mut self, lease: &Lease) -> anyhow::Result<bool> {
        let Some(kernels) = self.kernels else { return Ok(true) };
        self.note("getting kernels");
        let Some(needed) = patiently(self.stop, || kernels.packs_for(self.service, &lease.work)) else {
            return Ok(false);
        };
        let before = self.packs.len();
        for path in needed.map_err(anyhow::Error::from)? {
            if !self.packs.contains(&path) {
                self.packs.push(path);
            }
        }
        if self.packs.len() > before {
            // The cache may have made room since.
            self.packs.retain(|path| path.exists());
            self.provenance.node = self.meter.use_packs(&self.packs, &|| self.stop.insisted())?;
        }
        Ok(true)
    }

    /// Measures one problem into the outbox. Returns why the device cannot, if so, and whom that concerns.
    fn measure(&mut self, lease: &Lease, work: &Work) -> anyhow::Result<Option<(String, Reach)>> {
        let mut configs = match configs(&self.hardware, work) {
            Ok(configs) => configs,
            Err(reason) => return Ok(Some((reason.to_string(), Reach::Hardware))),
        };
        configs.extend(self.library.then_some(Config::Library));
        match self.meter.measure(&work.problem, &configs, &|| self.stop.insisted())? {
            Outcome::Measured { measured, .. } if measured.timed.is_empty() && measured.failed.is_empty() => {
                Ok(Some(("there are no configs for it".to_owned(), Reach::Hardware)))
            }
            Outcome::Measured { measured, quality } => {
                self.tally.kernels += Duration::from_nanos(quality.busy_ns);
                let method = self.meter.method();
                let (hardware, provenance) = (self.hardware.clone(), self.provenance.clone());
                let result = dataset_of((hardware, provenance), work.problem.clone(), method, measured)?;
                self.outbox.add(&lease.id, result)?;
                self.tally.measured += 1;
                Ok(None)
            }
            // Another node may have more kernels, or more memory free.
            Outcome::Refused(reason) => Ok(Some((reason, Reach::Agent))),
            Outcome::Abandoned => Ok(None),
        }
    }
}
