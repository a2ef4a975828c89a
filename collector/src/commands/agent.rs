use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use diode_core::api::{LeaseRequest, Registration};
use diode_core::{DType, Op};

use crate::agent::{
    Choice, DeviceFacts, Health, Home, Kernels, Places, Service, Stop, Tally, Worker, ability, ability_with,
};
use crate::collect::bench::{Bench, DeviceArgs};
use crate::failure::one_line;
use crate::input::arguments;
use crate::interrupt::Interrupt;
use crate::output::count;
use crate::server::ServerArgs;

/// Measure what a Diode server asks for, until it is stopped
///
/// Every result is on disk before it is sent, and leaves the disk once the server has it. An agent that was killed
/// goes on where it was. Ctrl-C or SIGTERM lets the problem in hand finish, for as long as --grace says, and gives
/// the rest back. Exit codes: 0 stopped as asked, 1 failed, 2 wrong usage.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode agent --server https://diode.example.org --device all\n  diode agent --server http://127.0.0.1:8080 --backend cpu --once"
)]
pub(crate) struct Agent {
    #[command(flatten)]
    server: ServerArgs,

    #[command(flatten)]
    devices: DeviceArgs,

    /// Folder for results that have not been sent yet [default: diode/agent in XDG_STATE_HOME or ~/.local/state]
    #[arg(long, env = "DIODE_AGENT_HOME", value_name = "FOLDER")]
    home: Option<PathBuf>,

    /// What the agent is called on the server [default: this machine's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Run no kernels of the server: only packs that --kernels names, or that are built on this node
    #[arg(long)]
    no_server_packs: bool,

    /// Operators to measure, separated by commas [default: all that there are kernels for]
    #[arg(long, value_name = "OPS", value_delimiter = ',')]
    ops: Vec<Op>,

    /// Types to measure, separated by commas [default: those of bfloat16, float16 and float32 that there are kernels for]
    #[arg(long, value_name = "DTYPES", value_delimiter = ',', value_parser = arguments::dtype)]
    dtypes: Vec<DType>,

    /// How much work to take at a time, by the server's estimate
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = arguments::duration)]
    lease: Duration,

    /// End once one lease is done; for batch systems
    #[arg(long)]
    once: bool,

    /// End after so many hours
    #[arg(long, value_name = "HOURS", value_parser = hours)]
    max_hours: Option<Duration>,

    /// How long the problem in hand may go on after a signal
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = arguments::duration)]
    grace: Duration,

    /// File that says, as JSON, what the agent does; for supervisors
    #[arg(long, value_name = "FILE")]
    health: Option<PathBuf>,

    /// Seed of the inputs that kernels are run on, and of made-up times
    #[arg(long, value_name = "N", default_value_t = 42, value_parser = arguments::whole::<u32>)]
    seed: u32,
}

fn hours(text: &str) -> Result<Duration, String> {
    let hours = text.parse().ok().filter(|hours: &f64| *hours > 0.0);
    let duration = hours.and_then(|hours| Duration::try_from_secs_f64(hours * 3600.0).ok());
    duration.ok_or_else(|| "expected a number of hours above zero, such as 8 or 0.5".to_owned())
}

impl Agent {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let seconds = self.lease.as_secs_f64().clamp(1.0, LeaseRequest::MAX_SECONDS);
        let interrupt = Interrupt::install()?;
        let service = Service::new(self.server.client()?);
        let home = Home::open(self.home.as_deref())?;
        let bench = self.devices.bench(self.seed.into(), &interrupt)?;
        let stop = Stop::new(interrupt.clone(), self.max_hours, self.grace);
        let health = Health::new(self.health.clone());
        let places = Places {
            service: Some(&service).filter(|_| !self.no_server_packs),
            stop: &stop,
            interrupt: &interrupt,
        };
        let kernels = match &bench.gpu {
            None => None,
            Some(gpu) if !gpu.packs.is_empty() => Some(Kernels::given(&gpu.packs, self.choice())?),
            Some(gpu) => match Kernels::found(&gpu.arch, self.choice(), places)? {
                Some(kernels) => Some(kernels),
                // Told to stop meanwhile.
                None => return Ok(()),
            },
        };
        let mut workers = Vec::new();
        for (number, device) in self.devices_of(bench, kernels.as_ref(), &home).into_iter().enumerate() {
            let outbox = home.outbox(&device.hardware, number);
            workers.push(Worker::new((&service, &stop, &health), kernels.as_ref(), device, &outbox)?);
        }
        let devices = workers.len();
        say!("{} for {}", count(devices, "device"), self.server.server);
        let ended: Vec<anyhow::Result<Tally>> = thread::scope(|scope| {
            let threads: Vec<_> =
                workers.iter_mut().map(|worker| scope.spawn(|| worker.run(seconds, self.once))).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|_| bail!("a worker panicked"))
            };
            threads.into_iter().map(join).collect()
        });
        report(ended)
    }

    fn choice(&self) -> Choice<'_> {
        Choice { ops: &self.ops, dtypes: &self.dtypes }
    }

    /// Each device with what the server is told of it.
    fn devices_of(&self, bench: Bench, kernels: Option<&Kernels>, home: &Home) -> Vec<DeviceFacts> {
        let Bench { meters, hardware, provenance, library, gpu } = bench;
        let ability = match (kernels, &gpu) {
            (Some(kernels), Some(gpu)) => ability_with(kernels, gpu.memory_bytes),
            _ => ability(&hardware, self.choice()),
        };
        let packs = gpu.map(|gpu| gpu.packs).unwrap_or_default();
        let name = self.name.clone().unwrap_or_else(host);
        let (several, tool) = (meters.len() > 1, provenance.tool.clone().unwrap_or_default());
        let device = |(number, meter)| DeviceFacts {
            meter,
            hardware: hardware.clone(),
            provenance: provenance.clone(),
            library,
            registration: Registration {
                key: home.device_key(&hardware, number),
                name: if several { format!("{name}, device {number}") } else { name.clone() },
                hardware: hardware.clone(),
                ability: ability.clone(),
                tool: tool.clone(),
                node: provenance.node.clone(),
            },
            packs: packs.clone(),
        };
        meters.into_iter().enumerate().map(device).collect()
    }
}

/// Says what was done. Devices that failed do not keep the others from their end.
fn report(ended: Vec<anyhow::Result<Tally>>) -> anyhow::Result<()> {
    let (devices, mut failures, mut sum) = (ended.len(), Vec::new(), Tally::default());
    for tally in ended {
        match tally {
            Ok(tally) => {
                sum.leases += tally.leases;
                sum.measured += tally.measured;
                sum.refused += tally.refused;
                sum.unsent += tally.unsent;
            }
            Err(error) => failures.push(error),
        }
    }
    say!(
        "measured {} of {}, {} could not be measured",
        count(sum.measured, "problem"),
        count(sum.leases, "lease"),
        sum.refused
    );
    if sum.unsent > 0 {
        say!("{} not sent yet; the next start sends it", count(sum.unsent, "result"));
    }
    let failed = failures.len();
    match failures.pop() {
        None => Ok(()),
        Some(error) if devices == 1 => Err(error),
        Some(error) => {
            for other in &failures {
                say!("a device failed: {}", one_line(other));
            }
            Err(error).with_context(|| format!("{failed} of {devices} devices failed"))
        }
    }
}

fn host() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match host.trim() {
        "" => "a node".to_owned(),
        host => host.chars().take(64).collect(),
    }
}
