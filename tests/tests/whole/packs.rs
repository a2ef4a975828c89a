//! Kernel packs go from an administrator through the server to a GPU. The GPU is a stand-in.

mod broken;
mod considerate;
mod node;
mod running;

use std::process::Output;

use anyhow::{Context, ensure};
use diode_tests::{Server, diode};
use serde_json::{Value, json};

use node::{Node, says};

#[test]
fn an_agent_with_nothing_gets_a_pack_and_its_results_are_accepted() -> anyhow::Result<()> {
    let node = Node::new()?;
    let server = node.server()?;
    let output = node.agent("one", &server, &[])?;
    let said = says(&output);
    ensure!(output.status.success(), "{said}");
    ensure!(said.contains("pulling the kernel pack") && said.contains("1 pack of the server"), "{said}");
    ensure!(node.cached("one").exists(), "{said}");
    let agents = server.get("/api/v1/agents")?;
    ensure!(agents[0]["measured"].as_u64() > Some(0), "{agents} {said}");
    assert_eq!(agents[0]["hardware"], json!("nvidia-h100"));
    ensure!(!said.contains("was built without"), "it was asked for what the pack lacks: {said}");
    let id = agents[0]["id"].as_str().context("id")?;
    let detail = server.get(&format!("/api/v1/agents/{id}"))?;
    assert_eq!(detail["ability"]["variants"], json!(["mm;bfloat16;row,row;bias=none;align=16,16,16"]));
    let table = server.get("/api/v1/tables/nvidia-h100.json")?.to_string();
    ensure!(table.contains("triton::mm"), "{table:.300}");

    // The pack is in the cache now, so the agent does not pull it again.
    let again = node.agent("one", &server, &[])?;
    ensure!(again.status.success() && !says(&again).contains("pulling"), "{}", says(&again));

    // With this flag, an agent must not run the server's packs.
    let forbidden = node.agent("two", &server, &["--no-server-packs"])?;
    assert_eq!(forbidden.status.code(), Some(1));
    ensure!(says(&forbidden).contains("no kernels for sm_90"), "{}", says(&forbidden));
    ensure!(!node.cached("two").exists());
    people_get_it_too(&node, &server)
}

/// A pack with kernels for scaled and experts multiplications measures them, and the board shows the times.
#[test]
fn kernels_for_served_models_are_pulled_and_measured() -> anyhow::Result<()> {
    let flags = ["--ops", "scaled_mm,fused_moe", "--dtypes", "float8_e4m3fn", "--scalings", "row"];
    let node = Node::with_kernels(&flags)?;
    let server = node.server()?;
    let usual = json!({"b": 1, "dtype": "float8_e4m3fn", "scaling": "row"});
    let problem = |more: Value| -> Value {
        let fields = [usual.clone(), more].into_iter().filter_map(|value| value.as_object().cloned());
        fields.flatten().collect::<serde_json::Map<_, _>>().into()
    };
    let experts = |stage: &str, k: u64| {
        let groups = json!({"count": 4, "top_k": 2, "stage": stage, "rows": "routed"});
        problem(json!({"op": "fused_moe", "m": 8, "n": 128, "k": k, "groups": groups}))
    };
    let scaled = problem(json!({"op": "scaled_mm", "m": 16, "n": 64, "k": 128}));
    let problems = json!([scaled, experts("gate-up", 128), experts("down", 64)]);
    std::fs::write(node.path().join("problems.json"), problems.to_string())?;
    let collect = ["collect", "--output", "a.msgpack.zst", "--problems", "problems.json"];
    let output = node.command("one", &[&collect[..], &["--server", server.url()]].concat())?.output()?;
    ensure!(output.status.success(), "{}", says(&output));
    diode(node.path(), &["upload", "a.msgpack.zst", "--server", server.url()])?;
    let board = |filter: &str| server.get(&format!("/api/v1/hardware/nvidia-h100/leaderboard?{filter}"));
    let row = board("op=scaled_mm&scaling=row&dtype=float8_e4m3fn")?;
    assert_eq!((&row["total"], &row["items"][0]["problem"]["k"]), (&json!(1), &json!(128)), "{row}");
    ensure!(row["items"][0]["triton"]["us"].as_f64() > Some(0.0), "{row}");
    let layer = board("op=fused_moe&scaling=row")?;
    assert_eq!((&layer["total"], &board("scaling=block")?["total"]), (&json!(2), &json!(0)), "{layer}");
    Ok(())
}

/// `collect` takes the pack from the cache, else from the server, and says which.
fn people_get_it_too(node: &Node, server: &Server) -> anyhow::Result<()> {
    let problems = r#"[{"op": "mm", "b": 1, "m": 16, "n": 32, "k": 32, "dtype": "bfloat16"}]"#;
    std::fs::write(node.path().join("problems.json"), problems)?;
    let collect = |cache: &str, name: &str, more: &[&str]| -> anyhow::Result<Output> {
        let usual = ["collect", "--output", name, "--problems", "problems.json"];
        Ok(node.command(cache, &[&usual[..], more].concat())?.output()?)
    };
    let cached = collect("one", "a.msgpack.zst", &[])?;
    ensure!(cached.status.success(), "{}", says(&cached));
    ensure!(says(&cached).contains(&format!("pack {:.12}, cached", node.digest)), "{}", says(&cached));
    let none = collect("three", "b.msgpack.zst", &[])?;
    assert_eq!(none.status.code(), Some(1));
    ensure!(says(&none).contains("no kernels for sm_90: none are cached"), "{}", says(&none));
    let pulled = collect("three", "b.msgpack.zst", &["--server", server.url()])?;
    ensure!(pulled.status.success(), "{}", says(&pulled));
    ensure!(says(&pulled).contains(&format!("pack {:.12} of http://", node.digest)), "{}", says(&pulled));
    let listed = node.command("four", &["kernels", "pull", "--server", server.url()])?.output()?;
    ensure!(listed.status.success() && node.cached("four").exists(), "{}", says(&listed));
    Ok(())
}

#[test]
fn a_tampered_pack_is_refused() -> anyhow::Result<()> {
    let node = Node::new()?;
    let server = node.server()?;
    let mut files = std::fs::read_dir(node.server_folder().join("diode-data/packs"))?;
    let file = files.next().context("the server's file")??.path();
    let mut bytes = std::fs::read(&file)?;
    *bytes.last_mut().context("a byte")? ^= 1;
    std::fs::write(&file, bytes)?;
    let output = node.agent("one", &server, &[])?;
    assert_eq!(output.status.code(), Some(1), "{}", says(&output));
    ensure!(says(&output).contains("is refused: it is not what its digest names"), "{}", says(&output));
    ensure!(!node.cached("one").exists());
    let agents = server.get("/api/v1/agents")?;
    assert_eq!((&agents[0]["measured"], &agents[0]["lease"]), (&json!(0), &json!(null)), "{agents}");
    let pull = node.command("two", &["kernels", "pull", "--server", server.url()])?.output()?;
    assert_eq!(pull.status.code(), Some(1), "{}", says(&pull));
    Ok(())
}
