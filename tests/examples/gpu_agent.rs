//! Runs an agent on this machine's GPU, from a fresh node to SIGTERM, and measures its cost: `gpu_agent PACK MINUTES`.
//!
//! A server on loopback has the pack. The agent gets only the server's address. `diode` and `diode-server` must lie one
//! folder above this program, where cargo puts them. Fails if a requirement is not met.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use diode_tests::{Server, administrator_token, diode_command, reported};
use serde_json::Value;

/// A GPU must spend at least this share of its time in kernels.
const LEAST_SHARE: f64 = 0.85;
/// A GPU may wait at most this share of its time between problems, for the server or the agent.
const MOST_BETWEEN: f64 = 0.03;
/// The most host memory of the agent's process and its measuring process together, besides the driver's memory.
const MOST_MEGABYTES: f64 = 200.0;
/// The most seconds from the start until the server accepts the first result.
const MOST_SECONDS_TO_FIRST: f64 = 120.0;

fn main() -> ExitCode {
    reported(run())
}

fn run() -> anyhow::Result<String> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, pack, minutes] = &arguments[..] else { anyhow::bail!("expected PACK MINUTES") };
    let pack = std::fs::canonicalize(pack).context("PACK")?;
    let time = Duration::from_secs_f64(minutes.parse::<f64>().context("MINUTES")? * 60.0);
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let server = Server::start_with(folder, &["--no-worker"])?;
    let publish = ["kernels", "publish", &pack.display().to_string(), "--server", server.url()];
    let token = administrator_token(folder, &server)?;
    let published = diode_command(folder, &publish)?.env("DIODE_TOKEN", token).status()?;
    ensure!(published.success(), "the pack was not published");

    let driver_megabytes = driver_megabytes(folder)?;
    let began = Instant::now();
    let mut agent = start(folder, server.url())?;
    let first = first_result(&server, &mut agent)?;
    let watched = watch(&mut agent, time)?;
    let told = Instant::now();
    let pid = agent.id().to_string();
    ensure!(Command::new("sh").args(["-c", "kill -TERM $0", &pid]).status()?.success(), "kill failed");
    let status = agent.wait()?;
    let ending = told.elapsed().as_secs_f64();
    let ran = began.elapsed().as_secs_f64();
    ensure!(status.code() == Some(0), "the agent ended with {status}");
    // The shares are of the agent's whole life. A problem counts only when it is done, so a shorter window would miss
    // the work on an unfinished problem.
    let spent = Spent::in_all(folder)?;
    let (problems, leases) = check(&server)?;
    let share = spent.kernel_seconds / ran;
    let between = 1.0 - spent.measuring_seconds / ran;
    let own = watched.own_megabytes + watched.child_megabytes - driver_megabytes;
    let report = serde_json::json!({
        "seconds": ran,
        "seconds_to_first_accepted_result": first,
        "problems": problems,
        "leases": leases,
        "share_of_time_in_kernels": share,
        "share_of_time_between_problems": between,
        "utilisation_by_nvml": watched.utilisation,
        "agent_megabytes": watched.own_megabytes,
        "measuring_process_megabytes": watched.child_megabytes,
        "the_same_before_its_first_problem": driver_megabytes,
        "seconds_from_sigterm_to_end": ending,
        "last_lease_given_back_and_everything_on_the_board": true,
    });
    let report = serde_json::to_string_pretty(&report)?;
    for (what, holds) in [
        ("the share of time in kernels", share >= LEAST_SHARE),
        ("the share of time between problems", between <= MOST_BETWEEN),
        ("the time to the first result", first <= MOST_SECONDS_TO_FIRST),
        ("the agent's memory", own <= MOST_MEGABYTES),
    ] {
        ensure!(holds, "{what} is not as it should be: {report}");
    }
    Ok(report)
}

/// Starts the agent with an empty cache. Its flags name only the server, its own folder and its health file.
fn start(folder: &Path, server: &str) -> anyhow::Result<Child> {
    diode_command(folder, &["agent", "--server", server, "--home", "home", "--health", "health.json"])?
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .stderr(Stdio::inherit())
        .spawn()
        .context("cannot start diode")
}

/// The memory that the driver and its libraries take in a measuring process, before it has any kernel or problem.
fn driver_megabytes(folder: &Path) -> anyhow::Result<f64> {
    let mut process = diode_command(folder, &["measure-gpu", "--device", "0", "--backend", "cuda"])?
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start diode")?;
    let mut ready = String::new();
    BufReader::new(process.stdout.take().context("stdout is piped")?).read_line(&mut ready)?;
    ensure!(ready.contains("ready"), "the measuring process said {ready:?}");
    let megabytes = megabytes(process.id()).context("the measuring process has ended");
    // The process ends when its input ends.
    drop(process.stdin.take());
    process.wait()?;
    megabytes
}

/// Seconds until the server has accepted a result.
fn first_result(server: &Server, agent: &mut Child) -> anyhow::Result<f64> {
    let began = Instant::now();
    loop {
        if let Some(status) = agent.try_wait()? {
            anyhow::bail!("the agent has ended with {status} before its first result");
        }
        if server.get("/api/v1/agents")?[0]["measured"].as_u64() > Some(0) {
            return Ok(began.elapsed().as_secs_f64());
        }
        ensure!(began.elapsed() < Duration::from_secs(600), "no result within ten minutes");
        thread::sleep(Duration::from_millis(100));
    }
}

struct Watched {
    /// The mean of the samples, in percent; `None` without nvidia-smi.
    utilisation: Option<f64>,
    /// The highest values that were seen.
    own_megabytes: f64,
    child_megabytes: f64,
}

/// Samples the agent once a second.
fn watch(agent: &mut Child, time: Duration) -> anyhow::Result<Watched> {
    let began = Instant::now();
    let (mut samples, mut own_megabytes, mut child_megabytes) = (Vec::new(), 0.0_f64, 0.0_f64);
    while began.elapsed() < time {
        if let Some(status) = agent.try_wait()? {
            anyhow::bail!("the agent has ended with {status}");
        }
        samples.extend(utilisation());
        own_megabytes = own_megabytes.max(megabytes(agent.id()).unwrap_or_default());
        for child in children(agent.id()) {
            child_megabytes = child_megabytes.max(megabytes(child).unwrap_or_default());
        }
        thread::sleep(Duration::from_secs(1));
    }
    let utilisation = (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / samples.len() as f64);
    Ok(Watched { utilisation, own_megabytes, child_megabytes })
}

/// The share of the last moments in which a kernel ran, in percent, as NVML reports it.
fn utilisation() -> Option<f64> {
    let query = ["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "--id=0"];
    let output = Command::new("nvidia-smi").args(query).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

/// The resident memory of a process, without mapped files of the driver and its libraries.
fn megabytes(process: u32) -> Option<f64> {
    const OF_THE_DRIVER: [&str; 4] = ["/dev/nvidia", "/libcuda.", "/libcublas", "/libnvidia-"];
    let maps = std::fs::read_to_string(format!("/proc/{process}/smaps")).ok()?;
    let (mut counts, mut kilobytes) = (true, 0.0);
    for line in maps.lines() {
        if let Some(resident) = line.strip_prefix("Rss:") {
            let resident: f64 = resident.trim().trim_end_matches(" kB").parse().ok()?;
            kilobytes += if counts { resident } else { 0.0 };
        } else if !line.contains(": ") {
            // The first line of each mapping ends with the name of its file.
            counts = !OF_THE_DRIVER.iter().any(|name| line.contains(name));
        }
    }
    Some(kilobytes * 1024.0 / 1e6)
}

fn children(process: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let listed = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let numbers = listed.flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    numbers.filter_map(|number| number.parse().ok()).collect()
}

/// What the agent's health file says about its time.
struct Spent {
    kernel_seconds: f64,
    measuring_seconds: f64,
}

impl Spent {
    fn in_all(folder: &Path) -> anyhow::Result<Self> {
        let health: Value = serde_json::from_slice(&std::fs::read(folder.join("health.json"))?)?;
        let devices = health["devices"].as_object().context("devices")?;
        let sum = |field: &str| devices.values().filter_map(|device| device[field].as_f64()).sum();
        Ok(Self { kernel_seconds: sum("kernel_seconds"), measuring_seconds: sum("measuring_seconds") })
    }
}

/// Checks that no lease is held any more and that every result is on the board. Returns the numbers of problems and
/// leases.
fn check(server: &Server) -> anyhow::Result<(u64, usize)> {
    let agent = &server.get("/api/v1/agents")?[0];
    ensure!(agent["lease"].is_null(), "a lease is still held: {agent}");
    let id = agent["id"].as_str().context("id")?;
    let leases = server.get(&format!("/api/v1/agents/{id}"))?["leases"].clone();
    let leases = leases.as_array().context("leases")?.clone();
    let states: Vec<&str> = leases.iter().filter_map(|lease| lease["state"].as_str()).collect();
    ensure!(states.first() == Some(&"returned"), "the last lease was not given back: {states:?}");
    ensure!(states[1..].iter().all(|state| ["done", "returned"].contains(state)), "{states:?}");
    let slug = agent["hardware"].as_str().context("hardware")?;
    let coverage = server.get(&format!("/api/v1/hardware/{slug}/coverage"))?;
    ensure!(coverage["leased"].as_u64() == Some(0), "{coverage}");
    let measured = agent["measured"].as_u64().context("measured")?;
    let board = server.get(&format!("/api/v1/hardware/{slug}/leaderboard?limit=1"))?;
    let rows = board["total"].as_u64().context("total")?;
    ensure!(rows == measured, "{measured} problems were sent, {rows} are on the board");
    Ok((measured, leases.len()))
}
