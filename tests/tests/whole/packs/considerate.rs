//! Agents that leave the GPU to others, agents that build their kernels themselves, and agents that are told to
//! end meanwhile.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command};

use anyhow::{Context, ensure};
use diode_standin::Script;
use diode_tests::Server;
use serde_json::{Value, json};

use super::node::Node;
use super::running::Running;

/// Another process that computes on the GPU, until it is dropped.
pub(crate) struct Tenant(Child);

impl Tenant {
    pub(crate) fn new(node: &Node) -> anyhow::Result<Self> {
        let child = Command::new("sleep").arg("1000").spawn()?;
        let mut file = OpenOptions::new().create(true).append(true).open(holders(node))?;
        writeln!(file, "0 {}", child.id())?;
        Ok(Self(child))
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The file in which processes on the stand-in declare that they compute.
fn holders(node: &Node) -> PathBuf {
    node.path().join(format!("script.json{}", Script::HOLDERS))
}

/// How many processes compute on the GPU now.
fn computing(node: &Node) -> anyhow::Result<usize> {
    let text = std::fs::read_to_string(holders(node))?;
    let mut processes: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("0 ")).collect();
    processes.sort_unstable();
    processes.dedup();
    Ok(processes.iter().filter(|id| PathBuf::from(format!("/proc/{id}")).exists()).count())
}

fn measured(server: &Server) -> anyhow::Result<u64> {
    let agents = server.get("/api/v1/agents")?;
    agents[0]["measured"].as_u64().context("measured")
}

#[test]
fn an_agent_leaves_the_gpu_to_others() -> anyhow::Result<()> {
    let node = Node::new()?;
    let server = node.server()?;
    let usual = ["agent", "--server", server.url(), "--home", "home", "--lease", "20s"];
    let considerate = ["--idle-only", "--log-format", "json"];
    let tenant = Tenant::new(&node)?;
    let mut agent = Running::start(&node, node.command("one", &[&usual[..], &considerate].concat())?)?;
    agent.until_doing("waiting for others to leave the GPU")?;
    assert_eq!((measured(&server)?, computing(&node)?), (0, 1), "{}", agent.said()?);
    drop(tenant);
    agent.until("it measures once the GPU is idle", |_| Ok(measured(&server)? > 0))?;

    // The rest of the lease must go back to the server, and the agent must release the GPU.
    let tenant = Tenant::new(&node)?;
    agent.until_doing("waiting for others to leave the GPU")?;
    let agents = server.get("/api/v1/agents")?;
    assert_eq!(agents[0]["lease"], json!(null), "{agents} {}", agent.said()?);
    assert_eq!(computing(&node)?, 1);
    let before = measured(&server)?;
    drop(tenant);
    agent.until("it goes on", |_| Ok(measured(&server)? > before))?;
    assert_eq!(agent.terminate()?, Some(0), "{}", agent.said()?);
    is_for_supervisors(&agent.said()?)
}

/// Checks that each line is a JSON document and that the important facts are fields of it.
fn is_for_supervisors(said: &str) -> anyhow::Result<()> {
    let lines: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).context(line.to_owned()))
        .collect::<Result<_, _>>()?;
    ensure!(lines.iter().all(|line| line["time"].is_string() && line["level"].is_string()), "{said}");
    let find = |fact: &str| {
        lines.iter().find(|line| !line[fact].is_null()).with_context(|| format!("{fact}: {said}"))
    };
    assert_eq!(find("driver")?["driver"], json!("580.00.01"));
    assert_eq!(find("packs")?["packs"].as_array().map(Vec::len), Some(1));
    ensure!(find("device")?["device"].is_string() && find("problems")?["lease"].is_string(), "{said}");
    let waited = find("doing")?;
    assert_eq!(waited["message"], json!("waiting: another process computes on the GPU"));
    let ended = lines.last().context("a line")?;
    ensure!(ended["leases"].as_u64() >= Some(2) && ended["measured"].as_u64() >= Some(2), "{ended}");
    ensure!(ended["seconds"].as_f64() > Some(0.0) && ended["refused"].is_u64(), "{ended}");
    Ok(())
}

#[test]
fn an_agent_waits_for_a_hot_gpu() -> anyhow::Result<()> {
    let node = Node::new()?;
    let server = node.server()?;
    // The stand-in reports 41 °C.
    let flags = ["agent", "--server", server.url(), "--home", "home", "--max-celsius", "40"];
    let mut agent = Running::start(&node, node.command("one", &flags)?)?;
    agent.until_doing("cooling down")?;
    ensure!(agent.said()?.contains("waiting: the GPU is at 41 °C"), "{}", agent.said()?);
    assert_eq!((agent.terminate()?, measured(&server)?), (Some(0), 0), "{}", agent.said()?);
    Ok(())
}

/// A variable that slows the stand-in compiler down. Without it, the build would be done before the test can
/// interrupt it.
const SECONDS_PER_KERNEL: &str = "STANDIN_SECONDS_PER_KERNEL";

/// Makes a folder with a `python3` that acts as if it had Triton.
fn folder_of_python(node: &Node) -> anyhow::Result<PathBuf> {
    let folder = node.path().join("bin");
    std::fs::create_dir(&folder)?;
    let (path, compiler) = (std::env::var("PATH")?, node.path().join("compiler"));
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = -c ]; then echo 3.6.0; exit; fi\nPATH='{path}' exec '{}'\n",
        compiler.display()
    );
    std::fs::write(folder.join("python3"), script)?;
    std::fs::set_permissions(folder.join("python3"), std::fs::Permissions::from_mode(0o755))?;
    Ok(folder)
}

#[test]
fn an_agent_that_builds_ends_when_its_time_is_over() -> anyhow::Result<()> {
    let node = Node::with_layouts("nn,nt")?;
    let server = Server::start_with(&node.server_folder(), &["--no-worker"])?;
    let flags = [
        "agent",
        "--server",
        server.url(),
        "--home",
        "home",
        "--max-hours",
        "0.001",
        "--grace",
        "1s",
        "--ops",
        "mm",
    ];
    let mut building = node.command("one", &flags)?;
    building.env("PATH", folder_of_python(&node)?).env(SECONDS_PER_KERNEL, "0.01");
    let output = building.output()?;
    let said = super::node::says(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    ensure!(
        said.contains("building 6140 kernels") && said.contains("goes on with what is compiled"),
        "{said}"
    );
    Ok(())
}

#[test]
fn an_agent_builds_what_no_pack_has_and_may_be_told_to_end_meanwhile() -> anyhow::Result<()> {
    let node = Node::with_layouts("nn,nt")?;
    let server = Server::start_with(&node.server_folder(), &["--no-worker"])?;
    let python = folder_of_python(&node)?;
    let usual = ["agent", "--server", server.url(), "--home", "home", "--lease", "1s", "--ops", "mm"];
    let mut building = node.command("one", &usual)?;
    building.env("PATH", &python).env(SECONDS_PER_KERNEL, "0.01");
    let mut agent = Running::start(&node, building)?;
    agent.until("it builds", |agent| Ok(agent.said()?.contains("building 6140 kernels for sm_90")))?;
    let code = agent.terminate()?;
    let said = agent.said()?;
    assert_eq!(code, Some(0), "{said}");
    ensure!(said.contains("the next start goes on with what is compiled"), "{said}");
    ensure!(!said.contains("error:"), "{said}");
    assert_eq!(server.get("/api/v1/agents")?, json!([]), "it had nothing to give back");

    // The stand-in would need minutes for the first of these problems, so a short grace lets the agent drop it.
    let mut again = node.command("one", &[&usual[..], &["--grace", "1s"]].concat())?;
    again.env("PATH", &python);
    let mut agent = Running::start(&node, again)?;
    agent.until("it measures with what it has built", |agent| {
        Ok(agent.said()?.contains("built on this node") && agent.said()?.contains("kernels from 1 pack: "))
    })?;
    let agents = server.get("/api/v1/agents")?;
    ensure!(agents[0]["lease"].is_string(), "{agents} {}", agent.said()?);
    assert_eq!(agent.terminate()?, Some(0), "{}", agent.said()?);
    let agents = server.get("/api/v1/agents")?;
    assert_eq!(agents[0]["lease"], json!(null), "the lease goes back: {agents}");
    Ok(())
}
