//! The whole loop without a manual step: a server, one agent for each of two GPUs, and an agent that sends
//! false times. One agent is killed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use diode_tests::{Agent, Server, diode_json, until};
use serde_json::{Value, json};

const GPUS: [&str; 2] = ["nvidia-h200", "nvidia-h100"];

/// Flags for few kinds of problem, so that a model can learn from few measurements.
const FEW: [&str; 4] = ["--ops", "mm", "--dtypes", "bfloat16"];

fn agent(folder: &Path, name: &str, server: &str, gpu: &str, odd: &str) -> anyhow::Result<Agent> {
    let flags = ["--backend", "simulated", "--simulate", gpu, "--odd", odd, "--lease", "10s"];
    Agent::start(folder, name, server, &[&flags[..], &FEW].concat())
}

#[test]
fn agents_of_two_gpus_make_models_whatever_is_killed_and_whoever_lies() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let server_folder = folder.join("server");
    std::fs::create_dir(&server_folder)?;
    // A fixed address: it must stay the same when the server is started again.
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
    let address = format!("127.0.0.1:{port}");
    let flags = ["--accept-simulated", "--auto-train-problems", "40"];
    let start = || Server::start_on(&server_folder, &address, &flags);
    let server = start()?;
    let url = server.url().to_owned();
    let one = agent(folder, "one", &url, GPUS[0], "times=1")?;
    let two = agent(folder, "two", &url, GPUS[1], "drift=0.01")?;
    let liar = agent(folder, "liar", &url, GPUS[0], "times=0.0001")?;
    for gpu in GPUS {
        until(&format!("{gpu} is measured"), || Ok(problems(&server, gpu)? > 5))?;
    }

    // One agent is killed and started again, then the server.
    one.kill()?;
    let one = agent(folder, "one", &url, GPUS[0], "times=1")?;
    let before = problems(&server, GPUS[0])?;
    until("the agent that was killed goes on", || Ok(problems(&server, GPUS[0])? > before + 5))?;
    let acknowledged = [problems(&server, GPUS[0])?, problems(&server, GPUS[1])?];
    drop(server);
    std::thread::sleep(Duration::from_secs(1));
    let server = start()?;
    for (gpu, acknowledged) in GPUS.into_iter().zip(acknowledged) {
        ensure!(problems(&server, gpu)? >= acknowledged, "{gpu}: what was acknowledged is lost");
        until(&format!("{gpu} goes on"), || Ok(problems(&server, gpu)? > acknowledged + 5))?;
    }

    // The server puts the liar aside, and no board shows its results.
    until("the liar is put aside", || Ok(known(&server, "liar")?["put_aside"].is_string()))?;
    assert_eq!(known(&server, "liar")?["measured"], 0);
    // The liar is told that it was put aside, so it ends by itself. It keeps its results.
    let mut liar = liar;
    until("the liar ends", || Ok(liar.child.try_wait()?.is_some()))?;

    // The server trains by itself, one GPU after the other, and each gets a model.
    until("one GPU has a model", || {
        Ok(published(&server, GPUS[0])?.or(published(&server, GPUS[1])?).is_some())
    })?;
    for gpu in GPUS {
        until(&format!("{gpu} has a model"), || Ok(published(&server, gpu)?.is_some()))?;
        let model = published(&server, gpu)?.context("a model")?;
        let file = format!("{gpu}.safetensors");
        let id = model["id"].as_str().context("an id")?;
        std::fs::write(folder.join(&file), server.bytes(&format!("/api/v1/models/{id}/download"))?)?;
        let predicted =
            diode_json(folder, &["predict", "512x512x512", "--model", &file, "--top", "3", "--json"])?;
        assert_eq!(predicted["candidates"].as_array().map(Vec::len), Some(3), "{predicted}");
        assert_eq!(model["source"], "trained");
    }

    assert_eq!([one.terminate()?, two.terminate()?], [Some(0), Some(0)]);
    for gpu in GPUS {
        nothing_was_measured_twice(&server, gpu)?;
    }
    Ok(())
}

fn published(server: &Server, gpu: &str) -> anyhow::Result<Option<Value>> {
    let models = server.get(&format!("/api/v1/models?hardware=simulated-{gpu}"))?;
    let models = models.as_array().context("models")?;
    Ok(models.iter().find(|model| model["state"] == "published").cloned())
}

fn problems(server: &Server, gpu: &str) -> anyhow::Result<u64> {
    server.get(&format!("/api/v1/hardware/simulated-{gpu}/coverage"))?["problems"]
        .as_u64()
        .context("problems")
}

fn known(server: &Server, name: &str) -> anyhow::Result<Value> {
    let agents = server.get("/api/v1/agents")?;
    let mut agents = agents.as_array().context("agents")?.iter();
    agents.find(|agent| agent["name"] == name).cloned().with_context(|| format!("an agent {name}"))
}

/// Checks that each problem has one solution. Agents without an account are one contributor, so they confirm
/// nothing.
fn nothing_was_measured_twice(server: &Server, gpu: &str) -> anyhow::Result<()> {
    let slug = format!("simulated-{gpu}");
    let summary = server.get(&format!("/api/v1/hardware/{slug}"))?;
    let coverage = server.get(&format!("/api/v1/hardware/{slug}/coverage"))?;
    assert_eq!(summary["solutions"], coverage["problems"], "{summary} {coverage}");
    assert_eq!(coverage["leased"], json!(0), "{coverage}");
    let mut by_agents = BTreeMap::new();
    for agent in server.get("/api/v1/agents")?.as_array().context("agents")? {
        *by_agents.entry(agent["hardware"].to_string()).or_insert(0) +=
            agent["measured"].as_u64().context("a number")?;
    }
    assert_eq!(
        by_agents.get(&json!(slug).to_string()).copied(),
        coverage["problems"].as_u64(),
        "{by_agents:?}"
    );
    Ok(())
}
