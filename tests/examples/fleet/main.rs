//! Many agents at once: `fleet AGENTS SERVERS MINUTES [POSTGRES_URL]`.
//!
//! SERVERS servers and as many workers share an empty database: the one at the URL, else SQLite in a folder of their
//! own. Each agent is a thread of this program. It makes the requests that `diode agent` makes, and takes as long for
//! each problem as the server expects of a device. The times are made up. Half of the agents have an account, so that
//! confirmations become due. Fails if a problem was handed out twice, if the server refused a request or if a result is
//! lost. Slow answers are only reported.

mod agent;
mod results;
mod tally;

use std::path::Path;
use std::process::{Child, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use diode_api::{Coverage, Scope};
use diode_core::hardware::{Hardware, find};
use diode_tests::{Server, reported, server_command, token};

use agent::Agent;
use tally::Tally;

/// The types of device in the fleet. Each type has the same number of agents.
const HARDWARE: [&str; 4] = ["nvidia-h100", "nvidia-h200", "nvidia-a100", "amd-mi300x"];

/// Agents start one by one over this time, as the agents of a cluster do.
const STARTING: Duration = Duration::from_secs(30);

/// The threads mostly wait for the network, so a small stack is enough for each.
const STACK_BYTES: usize = 512 << 10;

fn main() -> ExitCode {
    reported(run())
}

fn run() -> anyhow::Result<String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [agents, servers, minutes, database @ ..] = &arguments[..] else {
        anyhow::bail!("expected AGENTS SERVERS MINUTES [POSTGRES_URL]");
    };
    let (agents, servers) = (agents.parse().context("AGENTS")?, servers.parse().context("SERVERS")?);
    let time = Duration::from_secs_f64(minutes.parse::<f64>().context("MINUTES")? * 60.0);
    ensure!(time > STARTING, "expected more than {STARTING:?}, in which the agents start");
    let folder = tempfile::tempdir()?;
    let database = database.first().map_or("sqlite:fleet.db", String::as_str);
    let settings = format!("database_url = {database:?}\nblobs = \"blobs\"\naccept_simulated = true\n");
    std::fs::write(folder.path().join("diode.toml"), settings)?;

    let flags = ["--no-worker", "--auto-train", "off"];
    let started = (0..servers).map(|_| Server::start_with(folder.path(), &flags));
    let started: Vec<Server> = started.collect::<Result<_, _>>()?;
    let _workers: Vec<Worker> =
        (0..servers).map(|_| Worker::start(folder.path())).collect::<Result<_, _>>()?;
    let token = token(folder.path(), &started[0], &[Scope::Agent])?;

    let began = Instant::now();
    let (tally, stop) = (Arc::new(Tally::default()), Arc::new(AtomicBool::new(false)));
    let threads: Vec<_> = (0..agents)
        .map(|number| {
            let server = &started[number % started.len()];
            let token = (number / HARDWARE.len()).is_multiple_of(2).then(|| token.clone());
            let mut agent = Agent::new(number, hardware(number)?, server.url(), token, &tally, &stop);
            let wait = STARTING.mul_f64(number as f64 / agents as f64);
            let work = move || {
                thread::sleep(wait);
                agent.work()
            };
            Ok(thread::Builder::new().stack_size(STACK_BYTES).spawn(work)?)
        })
        .collect::<anyhow::Result<_>>()?;
    thread::sleep(time);
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().ok().context("an agent has panicked")??;
    }
    let seconds = began.elapsed().as_secs_f64();
    let coverage: Vec<Coverage> = (0..HARDWARE.len().min(agents))
        .map(|number| {
            let path = format!("/api/v1/hardware/{}/coverage", hardware(number)?.slug);
            Ok(serde_json::from_value(started[0].get(&path)?)?)
        })
        .collect::<anyhow::Result<_>>()?;
    tally.check(&coverage)?;
    Ok(format!(
        "{agents} agents, {servers} servers, {}, {seconds:.0} s\n{}",
        database.split(':').next().unwrap_or_default(),
        tally.report(seconds)
    ))
}

fn hardware(number: usize) -> anyhow::Result<Hardware> {
    let name = HARDWARE[number % HARDWARE.len()];
    Ok(find(name).with_context(|| format!("{name} is not in the catalogue"))?.simulated()?)
}

/// A process of `diode-server worker`. It is killed when dropped.
struct Worker(Child);

impl Worker {
    fn start(folder: &Path) -> anyhow::Result<Self> {
        let mut command = server_command(folder, &["worker", "--auto-train", "off"])?;
        Ok(Self(command.stdout(Stdio::null()).spawn().context("cannot start diode-server worker")?))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
