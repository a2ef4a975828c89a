//! An agent: devices that measure what a server asks for, until they are told to stop.
//!
//! Each device has a [`Worker`], a loop that measures in the same way as collections. A result is on disk in the
//! [`Outbox`] before it is sent. It leaves the outbox once the server has acknowledged it.

mod kernels;
mod lease;
mod limits;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::bail;
use diode_api::Registration;
use diode_core::Provenance;
use diode_core::hardware::Hardware;
use serde::Serialize;

use crate::agent::lease::{ConfigChooser, Outbox, Registered, patiently};
use crate::devices::Meter;
use crate::failure::one_line;
use crate::interrupt::Interrupt;
use crate::output::log;
use crate::server::{Client, Trouble};

pub(crate) use crate::agent::kernels::Kernels;
pub(crate) use crate::agent::limits::{Allowed, Limits, ability, ability_with, gpu_bytes};

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
    pub(crate) client: &'a Client,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) health: &'a Health,
    pub(crate) limits: &'a Limits,
    /// `None` if the devices need no kernels.
    pub(crate) kernels: Option<&'a Kernels<'a>>,
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
            let answer = match patiently(self.shared.interrupt, || agent.lease(seconds)) {
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
        if let Err(Trouble::Fatal(error)) = self.outbox.send(&agent) {
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
    fn register(&self) -> anyhow::Result<Option<Registered<'a>>> {
        self.note("registering");
        match patiently(self.shared.interrupt, || {
            Registered::new(self.shared.client, &self.device.registration)
        }) {
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
    fn register_again(&self, agent: &mut Registered<'a>) -> anyhow::Result<bool> {
        Ok(self.register()?.map(|known| *agent = known).is_some())
    }

    /// Sends the waiting results. `false` if the agent is to stop before that is done.
    fn send_patiently(&self, agent: &mut Registered<'a>) -> anyhow::Result<bool> {
        self.note("sending results");
        loop {
            match patiently(self.shared.interrupt, || self.outbox.send(agent)) {
                None => return Ok(false),
                Some(Err(Trouble::Unknown(_))) if self.register_again(agent)? => {}
                Some(Err(Trouble::Unknown(_))) => return Ok(false),
                Some(sent) => return Ok(sent.map(|()| true)?),
            }
        }
    }
}

/// A file that tells supervisors what the agent does and when it last did something.
pub(crate) struct Health {
    file: Option<PathBuf>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    devices: BTreeMap<String, DeviceState>,
    written: Option<Instant>,
}

/// What a device does.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct DeviceState {
    doing: &'static str,
    /// Problems measured since the start.
    measured: usize,
    /// Results that have not been sent yet.
    unsent: usize,
    /// Seconds since the start that a GPU spent in kernels.
    kernel_seconds: f64,
    /// Seconds since the start that went into measuring. The other seconds passed between problems.
    measuring_seconds: f64,
}

#[derive(Serialize)]
struct Document<'a> {
    at: String,
    process: u32,
    devices: &'a BTreeMap<String, DeviceState>,
}

/// The least time between two writes of the file. More frequent writes would tell a supervisor nothing
/// more.
const EVERY: Duration = Duration::from_secs(1);

impl Health {
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        Self { file, known: Mutex::default() }
    }

    /// Notes what a device does now.
    fn note(&self, device: &str, now: DeviceState) {
        let Some(file) = &self.file else { return };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let doing = now.doing;
        let before = known.devices.insert(device.to_owned(), now);
        let is_news = before.is_none_or(|before| before.doing != doing);
        if !is_news && known.written.is_some_and(|written| written.elapsed() < EVERY) {
            return;
        }
        let at = jiff::Timestamp::now().to_string();
        let document = Document { at, process: std::process::id(), devices: &known.devices };
        // If the file cannot be written, measuring goes on. A supervisor sees from the file's age that
        // it is out of date.
        let written = serde_json::to_vec_pretty(&document)
            .map_err(anyhow::Error::from)
            .and_then(|text| Ok(diode_formats::write_atomically(file, &text)?));
        if let (Err(error), None) = (&written, known.written) {
            tell!(Warning, {}, "--health: cannot write {}: {error:#}", file.display());
        }
        known.written = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_file_says_what_every_device_does() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("health.json");
        let health = Health::new(Some(file.clone()));
        let does = |doing, measured| DeviceState {
            doing,
            measured,
            unsent: 0,
            kernel_seconds: 0.0,
            measuring_seconds: 0.0,
        };
        health.note("GPU 0", does("measuring", 3));
        health.note("GPU 1", does("waiting for the server", 0));
        let document: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        assert_eq!(document["devices"]["GPU 0"]["measured"], 3);
        assert_eq!(document["devices"]["GPU 1"]["doing"], "waiting for the server");
        assert_eq!(document["process"], std::process::id());
    }
}
