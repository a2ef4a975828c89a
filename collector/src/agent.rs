//! An agent: devices that measure what a server asks for, until they are told to stop.
//!
//! Each device has a [`Worker`], a loop that measures in the same way as collections. A result is on disk in
//! the outbox before it is sent. It leaves the outbox once the server has acknowledged it.

mod ability;
mod home;
mod kernels;
mod limits;
mod service;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::bail;
use diode_api::{Lease, LeasedProblem, Reach, RefusedWork, Registration};
use diode_core::Provenance;
use diode_core::hardware::Hardware;
use diode_core::ids::LeaseId;

use crate::agent::ability::ConfigChooser;
use crate::agent::home::{DeviceState, Outbox};
use crate::agent::service::{Identity, patiently};
use crate::devices::{Meter, Outcome, add_libraries};
use crate::failure::one_line;
use crate::interrupt::Interrupt;
use crate::output::{count, log};
use crate::server::Trouble;

pub(crate) use crate::agent::ability::{Allowed, ability, ability_with, gpu_bytes};
pub(crate) use crate::agent::home::{Health, Home};
pub(crate) use crate::agent::kernels::Kernels;
pub(crate) use crate::agent::limits::Limits;
pub(crate) use crate::agent::service::Service;

/// One device that measures what the server asks for.
pub(crate) struct Worker<'a> {
    shared: Shared<'a>,
    device: Device,
    configs: ConfigChooser,
    outbox: Arc<Outbox>,
    tally: Tally,
    /// How long the last problem took. Zero once the device has rested for it.
    worked: Duration,
    /// Whether the rest of the lease goes back, because the device may not go on now.
    gives_back: bool,
    /// Whether the last lease needed a pack that cannot be had at the moment. The next lease would need it, too.
    waits_for_kernels: bool,
}

/// What the devices of an agent share.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'a> {
    pub(crate) service: &'a Service,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) health: &'a Health,
    pub(crate) limits: &'a Limits,
    /// `None` if the devices need no kernels.
    pub(crate) kernels: Option<&'a Kernels>,
    /// Whether kernels of the server may run.
    pub(crate) server_packs: bool,
}

/// What a device has done so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) leases: usize,
    pub(crate) measured: usize,
    pub(crate) refused: usize,
    /// How long a GPU spent in kernels.
    pub(crate) kernels: Duration,
    /// How long measuring took, including the time in which the GPU waited.
    pub(crate) measuring: Duration,
    /// Results that are still on disk. The next start sends them.
    pub(crate) unsent: usize,
}

/// A worker's device and what is known of it.
pub(crate) struct Device {
    pub(crate) meter: Box<dyn Meter>,
    pub(crate) hardware: Hardware,
    pub(crate) provenance: Provenance,
    /// Whether the vendor's library is there, so that its kernel is timed too.
    pub(crate) library: bool,
    pub(crate) registration: Registration,
    /// The packs that the device launches kernels from.
    pub(crate) packs: Vec<PathBuf>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(shared: Shared<'a>, device: Device, outbox: &Path) -> anyhow::Result<Self> {
        shared.limits.check(device.meter.surroundings())?;
        Ok(Self {
            shared,
            configs: ConfigChooser::new(device.hardware.clone()),
            device,
            outbox: Arc::new(Outbox::open(outbox)?),
            tally: Tally::default(),
            worked: Duration::ZERO,
            gives_back: false,
            waits_for_kernels: false,
        })
    }

    /// Works until the agent is to stop, or with `once` until one lease has ended. Each lease is to take about
    /// `seconds`.
    pub(crate) fn run(&mut self, seconds: f64, once: bool) -> anyhow::Result<Tally> {
        log::on_device(&self.device.registration.name);
        let Some(mut agent) = self.register()? else { return Ok(self.tally()) };
        self.say_what_it_is();
        let seconds = self.shared.limits.work_within(seconds);
        while !self.shared.interrupt.requested() {
            // Results that an earlier process measured, or that could not be sent before.
            if self.outbox.len() > 0 && !self.send_patiently(&mut agent)? {
                break;
            }
            if !self.wait_until_allowed()? {
                break;
            }
            if self.has_other_kernels()? && !self.register_again(&mut agent)? {
                break;
            }
            self.note("asking for work");
            let ask = || self.shared.service.lease(&agent, seconds);
            let answer = match patiently(self.shared.interrupt, ask) {
                None => break,
                Some(Err(Trouble::Unknown(_))) => match self.register_again(&mut agent)? {
                    true => continue,
                    false => break,
                },
                Some(answered) => answered?,
            };
            match answer.lease {
                Some(lease) => {
                    match self.work_on(&agent, lease) {
                        Err(error) if !once => self.take_again_after(error)?,
                        ended => ended?,
                    }
                    self.tally.leases += 1;
                    if once {
                        break;
                    }
                    self.wait_for_kernels();
                }
                None if once => {
                    say!("the server has no work for this device");
                    break;
                }
                None => {
                    self.note("waiting for work");
                    self.shared.interrupt.sleep(Duration::from_secs(answer.ask_again.max(1)));
                }
            }
        }
        // Tries once more to send the results that are left, but does not wait for a server that is away.
        if let Err(Trouble::Fatal(error)) = self.outbox.send(self.shared.service, &agent) {
            return Err(error);
        }
        self.note("ended");
        Ok(self.tally())
    }

    /// Notes that the device has failed. If other devices go on, it also prints the failure.
    pub(crate) fn say_failure(&self, error: &anyhow::Error, others: bool) {
        self.note("failed");
        if others {
            tell!(Error, {}, "this device has failed, the others go on: {}", one_line(error));
        }
    }

    fn tally(&self) -> Tally {
        Tally { unsent: self.outbox.len(), ..self.tally }
    }

    fn note(&self, doing: &'static str) {
        let Tally { measured, kernels, measuring, .. } = self.tally;
        let (kernel_seconds, measuring_seconds) = (kernels.as_secs_f64(), measuring.as_secs_f64());
        let unsent = self.outbox.len();
        let device = DeviceState { doing, measured, unsent, kernel_seconds, measuring_seconds };
        self.shared.health.note(&self.device.registration.name, device);
    }

    /// `None` if the agent is to stop before the server answers.
    fn register(&self) -> anyhow::Result<Option<Identity>> {
        self.note("registering");
        match patiently(self.shared.interrupt, || self.shared.service.register(&self.device.registration)) {
            None => Ok(None),
            Some(Ok(agent)) => Ok(Some(agent)),
            Some(Err(Trouble::Unknown(_))) => {
                bail!("the server knows no agents; it is older than this program, or no Diode server")
            }
            Some(Err(trouble)) => Err(trouble.into()),
        }
    }

    /// Registers with a server that does not know the agent as it is now. `false` if the agent is to stop before the
    /// server answers.
    fn register_again(&self, agent: &mut Identity) -> anyhow::Result<bool> {
        let known = self.register()?;
        let is_known = known.is_some();
        if let Some(known) = known {
            *agent = known;
        }
        Ok(is_known)
    }

    /// Sends the waiting results. `false` if the agent is to stop before that is done.
    fn send_patiently(&self, agent: &mut Identity) -> anyhow::Result<bool> {
        self.note("sending results");
        loop {
            match patiently(self.shared.interrupt, || self.outbox.send(self.shared.service, agent)) {
                None => return Ok(false),
                Some(Err(Trouble::Unknown(_))) if self.register_again(agent)? => {}
                Some(Err(Trouble::Unknown(_))) => return Ok(false),
                Some(sent) => return Ok(sent.map(|()| true)?),
            }
        }
    }

    /// Measures the problems of a lease, and gives back the problems that it did not measure.
    fn work_on(&mut self, agent: &Identity, lease: Lease) -> anyhow::Result<()> {
        let (service, lost, before) = (self.shared.service, AtomicBool::new(false), self.tally);
        self.gives_back = false;
        let (began, expected) = (Instant::now(), lease.work.iter().map(|work| work.seconds).sum::<f64>());
        tell!(
            Info,
            { "lease": lease.id, "problems": lease.work.len(), "expected_seconds": expected },
            "lease {:.8}: {}, about {expected:.0} s",
            lease.id.as_str(),
            count(lease.work.len(), "problem"),
        );
        let measured = thread::scope(|scope| {
            let renewal = Renewal::start(scope, (service, agent, &lease.id), lease.expires_in, &lost);
            let sending =
                Sending::start(scope, (service, agent), &self.outbox, &self.device.registration.name);
            let refused = self.measure_all(&lease, &renewal, &sending);
            sending.finish().and(refused)
        });
        let (refused, failure) = match measured {
            Ok(refused) => (refused, None),
            // The device has failed. The lease goes back all the same.
            Err(error) => (Vec::new(), Some(error)),
        };
        if self.outbox.len() == 0 || self.shared.interrupt.requested() || self.gives_back || failure.is_some()
        {
            // The results have arrived, or can be sent after the lease has ended. If all problems are done, the
            // server has ended the lease already and this request changes nothing.
            match self.shared.service.end(agent, &lease.id, refused) {
                Err(Trouble::Away(error, _)) => {
                    tell!(Warning, {}, "the lease could not be given back: {error:#}");
                }
                Err(Trouble::Fatal(error)) => return Err(error),
                Ok(_) | Err(Trouble::Ended(_) | Trouble::Unknown(_) | Trouble::Refused(_)) => {}
            }
        }
        let (measured, refused) =
            (self.tally.measured - before.measured, self.tally.refused - before.refused);
        let seconds = began.elapsed().as_secs_f64();
        tell!(
            Info,
            { "lease": lease.id, "measured": measured, "refused": refused, "seconds": seconds },
            "lease {:.8}: {} measured, {refused} refused, in {seconds:.0} s",
            lease.id.as_str(),
            count(measured, "problem"),
        );
        failure.map_or(Ok(()), Err)
    }

    /// Measures the problems of a lease. Returns the problems that the device cannot measure.
    fn measure_all(
        &mut self,
        lease: &Lease,
        renewal: &Renewal<'_>,
        sending: &Sending<'_>,
    ) -> anyhow::Result<Vec<RefusedWork>> {
        /// A lease may last this many times as long as it was expected to, and no less than this time. Then the rest goes
        /// back: the server thought the device faster than it is.
        const MOST_TIMES: f64 = 2.0;
        const LEAST: f64 = 60.0;
        let mut refused = Vec::new();
        if !self.get_kernels(lease)? {
            return Ok(refused);
        }
        let expected: f64 = lease.work.iter().map(|work| work.seconds).sum();
        let (started, most) = (Instant::now(), (MOST_TIMES * expected).max(LEAST));
        for work in &lease.work {
            if started.elapsed().as_secs_f64() > most {
                say!(
                    "this takes more than {MOST_TIMES} times as long as expected; the rest of the lease goes back"
                );
                self.gives_back = true;
                break;
            }
            if self.shared.interrupt.requested()
                || renewal.is_lost()
                || sending.has_failed()
                || !self.may_go_on()
            {
                break;
            }
            self.note("measuring");
            // Only measuring counts as work that needs a rest. Waiting for the server does not.
            let began = Instant::now();
            let refusal = self.measure(lease, work)?;
            self.worked = began.elapsed();
            if let Some((reason, reach)) = refusal {
                let problem = format!("{} {}", work.problem.op, work.problem.dims());
                tell!(Warning, { "problem": problem, "reason": reason }, "cannot measure {problem}: {reason}");
                if let (Reach::Agent, Some(kernels)) = (reach, self.shared.kernels) {
                    kernels.note_lack();
                }
                refused.push(RefusedWork { problem: work.problem.id(), reason, reach });
                self.tally.refused += 1;
            }
            sending.added();
        }
        Ok(refused)
    }

    /// Measures one problem into the outbox. If the device cannot measure the problem, returns the reason and
    /// whom the reason concerns.
    fn measure(&mut self, lease: &Lease, work: &LeasedProblem) -> anyhow::Result<Option<(String, Reach)>> {
        let mut configs = match self.configs.choose(work) {
            Ok(configs) => configs,
            Err(reason) => return Ok(Some((reason.to_string(), Reach::Hardware))),
        };
        if self.device.library {
            add_libraries(&mut configs, &work.problem);
        }
        let began = Instant::now();
        let outcome =
            self.device.meter.measure(&work.problem, &configs, &|| self.shared.interrupt.insisted())?;
        self.tally.measuring += began.elapsed();
        match outcome {
            Outcome::Measured { measured, .. } if measured.timed.is_empty() && measured.failed.is_empty() => {
                Ok(Some(("there are no configs for it".to_owned(), Reach::Hardware)))
            }
            Outcome::Measured { measured, quality } => {
                self.tally.kernels += Duration::from_nanos(quality.busy_ns);
                let method = self.device.meter.method();
                let node = (self.device.hardware.clone(), self.device.provenance.clone());
                let result = measured.into_dataset(node, work.problem.clone(), method)?;
                self.outbox.add(&lease.id, result)?;
                self.tally.measured += 1;
                Ok(None)
            }
            // Another node may have more kernels or more free memory, so the reason concerns this agent only.
            Outcome::Refused(reason) => Ok(Some((reason, Reach::Agent))),
            Outcome::Abandoned => Ok(None),
        }
    }
}

/// Renews a lease in the background until this value is dropped.
struct Renewal<'a> {
    lost: &'a AtomicBool,
    /// Dropping this sender ends the thread.
    _alive: Sender<()>,
}

impl<'a> Renewal<'a> {
    fn start<'scope, 'env: 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        (service, agent, lease): (&'env Service, &'env Identity, &'env LeaseId),
        expires_in: u64,
        lost: &'a AtomicBool,
    ) -> Self
    where
        'a: 'scope,
    {
        // Two renewals in a row may fail before the lease ends.
        let every = Duration::from_secs((expires_in / 3).max(1));
        let (alive, ended) = channel();
        scope.spawn(move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                // If the server is away, the lease goes on. What is measured meanwhile is sent later.
                if let Err(Trouble::Ended(_) | Trouble::Unknown(_)) = service.renew(agent, lease) {
                    lost.store(true, Ordering::Relaxed);
                    return;
                }
            }
        });
        Self { lost, _alive: alive }
    }

    /// Whether the server has taken the lease back. It may give the rest to another agent.
    fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Sends results in the background, so that the device goes on to the next problem.
struct Sending<'scope> {
    added: Sender<()>,
    thread: ScopedJoinHandle<'scope, anyhow::Result<()>>,
}

impl<'scope> Sending<'scope> {
    fn start<'env: 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        (service, agent): (&'env Service, &'env Identity),
        outbox: &Arc<Outbox>,
        device: &str,
    ) -> Self {
        let (added, news) = channel();
        let (outbox, device) = (Arc::clone(outbox), device.to_owned());
        let thread = scope.spawn(move || {
            log::on_device(&device);
            send_all(&news, (service, agent), &outbox)
        });
        Self { added, thread }
    }

    /// Notes that the outbox has a new result.
    fn added(&self) {
        // If the thread has failed, it receives nothing any more, and `finish` tells why.
        let _ = self.added.send(());
    }

    /// Whether the thread has ended because of a failure. To send more would not help.
    fn has_failed(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until the thread has tried to send what was added. While the server is away, results
    /// stay in the outbox.
    fn finish(self) -> anyhow::Result<()> {
        drop(self.added);
        match self.thread.join() {
            Ok(sent) => sent,
            Err(_) => bail!("the thread that sends results ended unexpectedly"),
        }
    }
}

fn send_all(
    news: &Receiver<()>,
    (service, agent): (&Service, &Identity),
    outbox: &Outbox,
) -> anyhow::Result<()> {
    while news.recv().is_ok() {
        // One attempt to send is enough for all that was added meanwhile.
        while news.try_recv().is_ok() {}
        match outbox.send(service, agent) {
            // If the server is away, the result is sent with the next one.
            Ok(()) | Err(Trouble::Away(..) | Trouble::Unknown(_) | Trouble::Ended(_)) => {}
            Err(trouble) => return Err(trouble.into()),
        }
    }
    Ok(())
}
