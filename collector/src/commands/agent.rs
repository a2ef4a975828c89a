use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use diode_api::{LeaseRequest, Registration};
use diode_core::hardware::Hardware;
use diode_core::ids::Digest;

use crate::agent::{
    Allowed, Device, Health, Kernels, Limits, Shared, Tally, Worker, ability, ability_with, gpu_bytes,
};
use crate::collect::bench::{Bench, DeviceArgs, GpuNode};
use crate::failure::{Interrupted, Usage, one_line};
use crate::input::arguments;
use crate::interrupt::Interrupt;
use crate::output::count;
use crate::output::files::user_folder;
use crate::server::{Client, ServerArgs, TermsArgs};

/// Measure what a Diode server asks for, until it is stopped
///
/// Every result is on disk before it is sent, and leaves the disk once the server has it. An agent that was killed
/// goes on where it was. Ctrl-C or SIGTERM lets the problem in hand finish, for as long as --grace says, and gives
/// the rest back. Uses all GPUs of the same kind as the first, unless --device names some. Exit codes: 0 stopped as
/// asked, 1 failed, 2 wrong usage. A device that fails is left out while others work, and makes the exit code 1.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode agent --server https://diode.example.org\n  diode agent --server https://diode.example.org --idle-only --hours 22:00-06:00\n  diode agent --server http://127.0.0.1:8080 --backend cpu --once"
)]
pub(crate) struct Agent {
    /// Folder for results that have not been sent yet [default: diode/agent in XDG_STATE_HOME or ~/.local/state]
    #[arg(long, env = "DIODE_AGENT_HOME", value_name = "FOLDER")]
    home: Option<PathBuf>,

    /// What the agent is called on the server [default: the kind of its GPU]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Run no kernels of the server: only packs that --kernels names, or that are built on this node
    #[arg(long)]
    no_server_packs: bool,

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

    #[command(flatten)]
    server: ServerArgs,

    #[command(flatten)]
    terms: TermsArgs,

    #[command(flatten)]
    devices: DeviceArgs,

    #[command(flatten)]
    allowed: Allowed,

    #[command(flatten)]
    limits: Limits,
}

fn hours(text: &str) -> Result<Duration, String> {
    let hours = text.parse().ok().filter(|hours: &f64| *hours > 0.0);
    let duration = hours.and_then(|hours| Duration::try_from_secs_f64(hours * 3600.0).ok());
    duration.ok_or_else(|| "expected a number of hours above zero, such as 8 or 0.5".to_owned())
}

impl Agent {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        // This may ask the user to agree to the terms. Until it returns, Ctrl-C ends the program at once.
        let client = self.terms.contribute(self.server.client()?)?;
        let interrupt = Interrupt::install(
            "stopping: the problem in hand is finished and the rest of the lease given back; once more to drop that problem",
        )?;
        match self.work(&client, &interrupt) {
            // The agent was interrupted before it took any work, so there is nothing to give back.
            Err(error) if error.is::<Interrupted>() => {
                say!("{}", one_line(&error));
                Ok(())
            }
            other => other,
        }
    }

    fn work(mut self, client: &Client, interrupt: &Interrupt) -> anyhow::Result<()> {
        let began = Instant::now();
        let seconds = self.lease.as_secs_f64().clamp(1.0, LeaseRequest::MAX_SECONDS);
        let home = Home::open(self.home.as_deref())?;
        self.devices.for_agent = true;
        let interrupt = &interrupt.after(self.max_hours).with_grace(self.grace);
        let mut bench = self.devices.bench(self.seed.into(), interrupt)?;
        let mut failures = std::mem::take(&mut bench.broken);
        let health = Health::new(self.health.clone());
        let kernels = match &bench.gpu {
            None => None,
            Some(gpu) => match self.kernels(gpu, client, interrupt)? {
                Some(kernels) => Some(kernels),
                // The agent was told to stop meanwhile.
                None => return Ok(()),
            },
        };
        let shared =
            Shared { client, interrupt, health: &health, limits: &self.limits, kernels: kernels.as_ref() };
        let mut workers = Vec::new();
        let devices = self.devices_of(bench, failures.len(), kernels.as_ref(), &home);
        let all = devices.len() + failures.len();
        for (number, device) in devices {
            let outbox = home.outbox(&device.hardware, number);
            match Worker::new(shared, device, &outbox) {
                Ok(worker) => workers.push(worker),
                Err(error) if all == 1 || error.is::<Usage>() => return Err(error),
                Err(error) => {
                    tell!(Error, {}, "device {number} is left out: {}", one_line(&error));
                    failures.push(error);
                }
            }
        }
        say!("{} for {}", count(workers.len(), "device"), self.server.server);
        let work = |worker: &mut Worker<'_>| {
            let ended = worker.run(seconds, self.once);
            if let Err(error) = &ended {
                worker.say_failure(error, all > 1);
            }
            ended
        };
        let ended: Vec<anyhow::Result<Tally>> = thread::scope(|scope| {
            let threads: Vec<_> = workers.iter_mut().map(|worker| scope.spawn(|| work(worker))).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|_| bail!("a worker panicked"))
            };
            threads.into_iter().map(join).collect()
        });
        report(ended, failures, began.elapsed())
    }

    /// The kernels that the GPUs launch. `None` if the agent is to stop before they are known.
    fn kernels<'a>(
        &self,
        gpu: &GpuNode,
        client: &'a Client,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<Kernels<'a>>> {
        if !gpu.packs.is_empty() {
            return Kernels::given(&gpu.arch, &gpu.packs, self.allowed.clone()).map(Some);
        }
        let client = Some(client).filter(|_| !self.no_server_packs);
        Kernels::found(&gpu.arch, self.allowed.clone(), client, interrupt)
    }

    /// Each device, with what the server is told about it.
    fn devices_of(
        &self,
        bench: Bench,
        broken: usize,
        kernels: Option<&Kernels<'_>>,
        home: &Home,
    ) -> Vec<(usize, Device)> {
        let Bench { meters, places, hardware, provenance, library, gpu, .. } = bench;
        let ability = match (kernels, &gpu) {
            (Some(kernels), Some(gpu)) => ability_with(kernels.variants(), gpu_bytes(gpu.memory_bytes)),
            _ => ability(&hardware, &self.allowed),
        };
        let packs = gpu.map(|gpu| gpu.packs).unwrap_or_default();
        let name = self.name.clone().unwrap_or_else(|| hardware.slug.to_string());
        let (several, tool) = (meters.len() + broken > 1, provenance.tool.clone().unwrap_or_default());
        let device = |number, meter| Device {
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
        places.into_iter().zip(meters).map(|(number, meter)| (number, device(number, meter))).collect()
    }
}

/// Prints what was done, once all devices have ended. Returns an error if a device failed or did not start.
fn report(
    ended: Vec<anyhow::Result<Tally>>,
    mut failures: Vec<anyhow::Error>,
    time: Duration,
) -> anyhow::Result<()> {
    let (devices, mut sum) = (ended.len() + failures.len(), Tally::default());
    for tally in ended {
        match tally {
            Ok(tally) => {
                sum.leases += tally.leases;
                sum.measured += tally.measured;
                sum.refused += tally.refused;
                sum.unsent += tally.unsent;
                sum.kernels += tally.kernels;
            }
            Err(error) => failures.push(error),
        }
    }
    let (seconds, kernel_seconds) = (time.as_secs_f64(), sum.kernels.as_secs_f64());
    tell!(
        Info,
        {
            "leases": sum.leases, "measured": sum.measured, "refused": sum.refused, "unsent": sum.unsent,
            "seconds": seconds, "kernel_seconds": kernel_seconds,
        },
        "ended after {seconds:.0} s, {kernel_seconds:.0} s of them in kernels: {} of {} measured, {} refused",
        count(sum.measured, "problem"),
        count(sum.leases, "lease"),
        sum.refused
    );
    if sum.unsent > 0 {
        tell!(Warning, {}, "{} not sent yet; the next start sends it", count(sum.unsent, "result"));
    }
    let failed = failures.len();
    match failures.pop() {
        None => Ok(()),
        Some(error) if devices == 1 => Err(error),
        // The log has all failures. The error gives only the last.
        Some(error) => Err(error).with_context(|| format!("{failed} of {devices} devices failed, the last")),
    }
}

/// The folder for what outlives an agent's process: the key that identifies it, and its unsent results.
struct Home {
    folder: PathBuf,
    key: String,
}

impl Home {
    /// Opens the given folder. Without one, opens the user's usual folder.
    fn open(given: Option<&Path>) -> anyhow::Result<Self> {
        let folder = match given {
            Some(folder) => folder.to_owned(),
            None => usual()?,
        };
        fs::create_dir_all(&folder).with_context(|| format!("--home: cannot make {}", folder.display()))?;
        let key = key(&folder.join("key"))?;
        Ok(Self { folder, key })
    }

    /// The key that tells a device from other devices of the account. It is the same whenever the agent starts
    /// in this folder.
    fn device_key(&self, hardware: &Hardware, number: usize) -> String {
        let name = format!("{} {} {number}", self.key, hardware.slug);
        Digest::of(name.as_bytes()).as_str()[..32].to_owned()
    }

    /// Where the results of a device are kept until they are sent.
    fn outbox(&self, hardware: &Hardware, number: usize) -> PathBuf {
        self.folder.join(format!("{}-{number}", hardware.slug))
    }
}

fn usual() -> anyhow::Result<PathBuf> {
    let base = user_folder("XDG_STATE_HOME", ".local/state").ok_or_else(|| {
        Usage::new(
            "neither XDG_STATE_HOME nor HOME is set; say with --home where the agent may keep its results",
        )
    })?;
    Ok(base.join("diode/agent"))
}

/// Reads the key, or draws one. Only its owner may read it, because whoever has it can act as an agent without
/// an account.
fn key(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    match fs::read_to_string(path) {
        Ok(key) if key.parse::<Digest>().is_ok() => return Ok(key),
        Ok(_) => bail!("{shown}: expected 64 hex digits; remove it, and the agent counts as a new one"),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
    }
    let mut drawn = [0; 32];
    getrandom::fill(&mut drawn).map_err(|error| anyhow!("the system gives no random numbers: {error}"))?;
    let key = Digest::of(&drawn);
    diode_formats::write_privately(path, key.as_str().as_bytes())
        .with_context(|| format!("cannot write {shown}"))?;
    Ok(key.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use diode_core::hardware::find;

    use super::*;

    #[cfg(unix)]
    #[test]
    fn the_key_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        Home::open(Some(folder.path())).unwrap();
        let mode = fs::metadata(folder.path().join("key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn devices_keep_their_keys() {
        let folder = tempfile::tempdir().unwrap();
        let h200 = find("nvidia-h200").unwrap();
        let key = |number| Home::open(Some(folder.path())).unwrap().device_key(&h200, number);
        assert_eq!(key(0), key(0));
        assert_ne!(key(0), key(1));
        let elsewhere = Home::open(Some(&folder.path().join("other"))).unwrap();
        assert_ne!(elsewhere.device_key(&h200, 0), key(0));
        diode_formats::write_atomically(&folder.path().join("key"), b"x").unwrap();
        assert!(
            Home::open(Some(folder.path())).err().unwrap().to_string().contains("expected 64 hex digits")
        );
    }
}
