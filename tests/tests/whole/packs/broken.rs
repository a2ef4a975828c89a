//! Agents whose GPUs or kernels fail.

use anyhow::ensure;
use diode_standin::{Effect, Rule};
use diode_tests::server_command;
use serde_json::json;

use super::considerate::Tenant;
use super::node::{Node, says};
use super::running::Running;

#[test]
fn a_gpu_that_does_not_start_is_left_out_and_told_in_the_end() -> anyhow::Result<()> {
    let node = Node::new()?;
    let server = node.server()?;
    // The first process to start the driver is the agent itself, the second is the measuring process of the
    // first GPU.
    node.change_script(|script| {
        script.gpus.push(script.gpus[0].clone());
        script.rules.push(Rule::new("context", Effect::Return(46)).in_process(2));
    })?;
    let output = node.agent("one", &server, &[])?;
    let said = says(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    ensure!(said.contains("GPU 0 is left out: ") && said.contains("1 of 2 devices failed"), "{said}");
    let agents = server.get("/api/v1/agents")?;
    assert_eq!(agents.as_array().map(Vec::len), Some(1), "{agents}");
    ensure!(agents[0]["measured"].as_u64() > Some(0), "{agents} {said}");
    ensure!(agents[0]["name"].as_str().is_some_and(|name| name.ends_with(", device 1")), "{agents}");
    assert_eq!(agents[0]["lease"], json!(null), "{agents}");

    // Without any GPU the agent cannot go on.
    node.change_script(|script| script.rules.push(Rule::new("context", Effect::Return(46))))?;
    let output = node.agent("one", &server, &[])?;
    assert_eq!(output.status.code(), Some(1), "{}", says(&output));
    ensure!(says(&output).contains("no GPU can be used"), "{}", says(&output));
    Ok(())
}

#[test]
fn a_lease_whose_pack_was_withdrawn_goes_back_before_the_agent_waits() -> anyhow::Result<()> {
    let node = Node::new()?;
    let server = node.server()?;
    let flags = ["agent", "--server", server.url(), "--home", "home", "--lease", "20s", "--idle-only"];
    let tenant = Tenant::new(&node)?;
    let mut agent = Running::start(&node, node.command("one", &flags)?)?;
    // The agent has listed the packs, but has pulled none yet.
    agent.until_doing("waiting for others to leave the GPU")?;
    let withdraw = ["admin", "withdraw-pack", node.digest.as_str()];
    ensure!(
        server_command(&node.server_folder(), &withdraw)?.status()?.success(),
        "the pack was not withdrawn"
    );
    drop(tenant);
    agent.until_doing("waiting for kernels")?;
    let agents = server.get("/api/v1/agents")?;
    assert_eq!((&agents[0]["lease"], &agents[0]["measured"]), (&json!(null), &json!(0)), "{agents}");
    let id = agents[0]["id"].as_str().unwrap_or_default();
    let detail = server.get(&format!("/api/v1/agents/{id}"))?;
    assert_eq!(detail["leases"][0]["state"], json!("returned"), "{detail}");
    ensure!(agent.said()?.contains("was withdrawn"), "{}", agent.said()?);
    assert_eq!(agent.terminate()?, Some(0), "{}", agent.said()?);
    Ok(())
}

#[test]
fn a_gpu_that_is_not_back_yet_is_tried_again() -> anyhow::Result<()> {
    let node = Node::new()?;
    let server = node.server()?;
    let flags = ["agent", "--server", server.url(), "--home", "home", "--lease", "20s", "--idle-only"];
    let tenant = Tenant::new(&node)?;
    let mut agent = Running::start(&node, node.command("one", &flags)?)?;
    agent.until_doing("waiting for others to leave the GPU")?;
    // The driver fails, as it does during an update.
    node.change_script(|script| script.rules.push(Rule::new("context", Effect::Return(46))))?;
    drop(tenant);
    agent.until_doing("waiting for the device")?;
    node.change_script(|script| script.rules.clear())?;
    agent.until("it measures", |_| Ok(server.get("/api/v1/agents")?[0]["measured"].as_u64() > Some(0)))?;
    assert_eq!(agent.terminate()?, Some(0), "{}", agent.said()?);
    Ok(())
}
