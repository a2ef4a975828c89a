//! A server and agents, with the real programs and no manual step. The agents measure what is missing, even if
//! an agent or the server is killed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use diode_tests::{Agent, Server, diode, diode_command, diode_json, server_command, until};
use serde_json::{Value, json};

const SIMULATED: &str = "simulated-nvidia-h200";

fn coverage(server: &Server) -> anyhow::Result<Value> {
    server.get(&format!("/api/v1/hardware/{SIMULATED}/coverage"))
}

fn measured(server: &Server) -> anyhow::Result<u64> {
    coverage(server)?["problems"].as_u64().context("problems")
}

#[test]
fn simulated_agents_fill_holes_whatever_is_killed() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let server_folder = folder.join("server");
    std::fs::create_dir(&server_folder)?;
    // A fixed address: it must stay the same when the server is started again.
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
    let address = format!("127.0.0.1:{port}");
    let start = || Server::start_on(&server_folder, &address, &["--accept-simulated"]);
    let server = start()?;
    let url = server.url().to_owned();
    let one = Agent::simulated(folder, "one", &url, "1")?;
    let two = Agent::simulated(folder, "two", &url, "2")?;
    until("both agents measure", || {
        let agents = server.get("/api/v1/agents")?;
        let agents = agents.as_array().context("agents")?;
        Ok(agents.len() == 2 && agents.iter().all(|agent| agent["measured"].as_u64() > Some(5)))
    })?;
    let first = measured(&server)?;
    until("coverage grows", || Ok(measured(&server)? > first + 10))?;

    // One agent is killed and started again. It must register as the same agent, and go on.
    one.kill()?;
    let one = Agent::simulated(folder, "one", &url, "1")?;
    let second = measured(&server)?;
    until("coverage grows with the agent that was killed", || Ok(measured(&server)? > second + 10))?;
    assert_eq!(server.get("/api/v1/agents")?.as_array().map(Vec::len), Some(2));

    // The server is killed and stays away for two seconds. What agents measure in that time arrives later.
    let third = measured(&server)?;
    drop(server);
    std::thread::sleep(Duration::from_secs(2));
    let server = start()?;
    ensure!(measured(&server)? >= third, "what was acknowledged is lost");
    until("coverage grows with the server that was killed", || Ok(measured(&server)? > third + 10))?;

    // Both agents are told to end. They must have nothing left to send, and hold no lease.
    ensure!(one.health()?["devices"]["one"]["doing"].is_string());
    assert_eq!([one.terminate()?, two.terminate()?], [Some(0), Some(0)]);
    let ended = coverage(&server)?;
    assert_eq!(ended["leased"], json!(0), "{ended}");
    for name in ["one", "two"] {
        let journal = folder.join(name).join(format!("home/{SIMULATED}-0.journal"));
        assert!(!journal.exists(), "{} still holds results", journal.display());
    }
    nothing_was_measured_twice(&server)
}

/// Checks that each problem has one solution. Agents without an account are one contributor, so they confirm
/// nothing.
fn nothing_was_measured_twice(server: &Server) -> anyhow::Result<()> {
    let summary = server.get(&format!("/api/v1/hardware/{SIMULATED}"))?;
    let coverage = coverage(server)?;
    let number = |value: &Value| value.as_u64().context("a number");
    assert_eq!(coverage["confirmed"], json!(0), "{coverage}");
    let expected = number(&coverage["problems"])?;
    assert_eq!(number(&summary["solutions"])?, expected, "{summary} {coverage}");
    let mut leases: BTreeMap<String, u64> = BTreeMap::new();
    let mut measured = 0;
    for agent in server.get("/api/v1/agents")?.as_array().context("agents")? {
        assert_eq!(agent["simulated"], json!(true));
        measured += number(&agent["measured"])?;
        let id = agent["id"].as_str().context("an id")?;
        for lease in server.get(&format!("/api/v1/agents/{id}"))?["leases"].as_array().context("leases")? {
            *leases.entry(lease["state"].to_string()).or_default() += 1;
        }
    }
    assert_eq!(measured, expected, "every result belongs to a lease");
    assert_eq!(leases.get("\"active\""), None, "{leases:?}");
    Ok(())
}

/// The plan has holes of what models are served with, an agent measures them, and the board shows them by scaling.
#[test]
fn an_agent_measures_what_models_are_served_with() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let server = Server::start_with(folder, &["--accept-simulated", "--no-worker"])?;
    let flags = ["--backend", "simulated", "--once", "--lease", "12s", "--ops", "scaled_mm,fused_moe"];
    let flags = [&flags[..], &["--dtypes", "float8_e4m3fn"]].concat();
    let wanted = ["16x4096x14336 fp8 row", "moe 128x768x2048 top8 64 tokens fp8 block"];
    let mut agent = Agent::start(folder, "one", server.url(), &flags)?;
    assert_eq!(agent.child.wait()?.code(), Some(0));
    let board = |filter: &str| -> anyhow::Result<Value> {
        server.get(&format!("/api/v1/hardware/{SIMULATED}/leaderboard?{filter}"))
    };
    let total = |filter: &str| board(filter)?["total"].as_u64().context("a total");
    let all = measured(&server)?;
    let [scaled, experts] = [total("op=scaled_mm")?, total("op=fused_moe")?];
    ensure!(scaled > 0 && experts > 0 && scaled + experts == all, "{scaled} and {experts} of {all}");
    let by = |scaling: &str| total(&format!("scaling={scaling}"));
    assert_eq!(by("tensor")? + by("row")? + by("block")?, all);
    let parts = coverage(&server)?["parts"].clone();
    let covered = parts.as_array().context("parts")?.iter().filter(|part| part["covered"] != json!(0));
    let covered: Vec<&Value> = covered.collect();
    ensure!(covered.iter().all(|part| part["dtype"] == json!("float8_e4m3fn")), "{covered:?}");
    assert_eq!(covered.iter().filter_map(|part| part["problems"].as_u64()).sum::<u64>(), all);

    // What somebody asks for is measured, too.
    for problem in wanted {
        diode(folder, &["want", problem, "--hardware", SIMULATED, "--server", server.url()])?;
    }
    let sizes = "m=16&n=4096&k=14336&op=scaled_mm&dtype=float8_e4m3fn&scaling=row";
    let stages = [(1536, 2048, "gate-up"), (2048, 768, "down")];
    until("what was asked for is measured", || {
        let mut agent = Agent::start(folder, "one", server.url(), &flags)?;
        assert_eq!(agent.child.wait()?.code(), Some(0));
        let near = server.get(&format!("/api/v1/hardware/{SIMULATED}/nearest?{sizes}&b_layout=column"))?;
        let layer = board("op=fused_moe&scaling=block&min_m=64&max_m=64&limit=500")?;
        let rows = layer["items"].as_array().context("rows")?;
        let is_there = |(n, k, stage): (u64, u64, &str)| {
            let groups = json!({"count": 128, "top_k": 8, "stage": stage, "rows": "routed"});
            rows.iter().map(|row| &row["problem"]).any(|problem| {
                (&problem["n"], &problem["k"], &problem["groups"]) == (&json!(n), &json!(k), &groups)
            })
        };
        Ok(near[0]["distance"] == json!(0.0) && stages.into_iter().all(is_there))
    })
}

/// A model is asked for by its name, agents measure its problems, and its page counts them.
#[test]
fn an_agent_measures_a_model_that_somebody_wants() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let server = Server::start_with(folder, &["--accept-simulated", "--no-worker"])?;
    let flags = ["--backend", "simulated", "--once", "--lease", "12s", "--ops", "mm", "--dtypes", "bfloat16"];
    let mut agent = Agent::start(folder, "one", server.url(), &flags)?;
    assert_eq!(agent.child.wait()?.code(), Some(0));
    let known = |key: &str| -> anyhow::Result<u64> {
        let workload = server.get(&format!("/api/v1/workloads/DLRM/{SIMULATED}"))?;
        workload[key].as_u64().with_context(|| workload.to_string())
    };
    let before = known("measured")?;
    diode(folder, &["want", "DLRM", "--hardware", SIMULATED, "--server", server.url()])?;
    ensure!(known("waiting")? > 50 && known("waiting")? + before <= known("problems")?);
    until("ten problems of the model are measured", || {
        let mut agent = Agent::start(folder, "one", server.url(), &flags)?;
        assert_eq!(agent.child.wait()?.code(), Some(0));
        Ok(known("measured")? >= before + 10)
    })?;
    // The list counts them, too.
    let list = server.get("/api/v1/workloads")?;
    let models = list["models"].as_array().context("models")?;
    let model = models.iter().find(|model| model["name"] == json!("DLRM")).context("DLRM")?;
    assert_eq!(model["served"][0]["on"][0]["measured"], json!(known("measured")?), "{model}");
    let output = diode_command(
        folder,
        &["want", "DLRM", "--tp", "2", "--hardware", SIMULATED, "--server", server.url()],
    )?
    .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("DLRM with tp=2"), "{said}");
    // A model that the server doesn't know is asked for by its config.json.
    let path = folder.join("config.json");
    std::fs::write(&path, r#"{"hidden_size": 384, "num_hidden_layers": 2, "intermediate_size": 640}"#)?;
    let mut want = diode_command(folder, &["want"])?;
    let output = want.arg(&path).args(["--hardware", SIMULATED, "--server", server.url()]).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("36 of 36 problems of"), "{said}");
    Ok(())
}

#[test]
fn a_model_comes_of_what_agents_measure() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let server = Server::start_with(folder, &["--accept-simulated", "--auto-train-problems", "5"])?;
    let flags = ["--backend", "simulated", "--once", "--lease", "6s", "--ops", "mm", "--dtypes", "bfloat16"];
    let mut agent = Agent::start(folder, "one", server.url(), &flags)?;
    assert_eq!(agent.child.wait()?.code(), Some(0));
    ensure!(measured(&server)? >= 5, "{}", coverage(&server)?);

    // The server starts the training by itself.
    let first = trained(&server)?;
    let trainings = trainings(&server)?;
    assert_eq!((&trainings[0]["automatic"], trainings.len()), (&json!(true), 1), "{trainings:?}");
    assert_eq!(published(&server)?, first);
    predicts(folder, &server, &first)?;

    // A model from elsewhere is published only when an administrator says so. The administrator can take this
    // back.
    let second = hardly_trained(folder, &server)?;
    assert_eq!(published(&server)?, first);
    admin(folder, &["publish", &second, "--reason", "tested"])?;
    assert_eq!(published(&server)?, second);
    admin(folder, &["roll-back", &second, "--reason", "tested"])?;
    assert_eq!(published(&server)?, first);
    let history = server.get(&format!("/api/v1/hardware/{SIMULATED}/publications"))?;
    let actions: Vec<_> = history.as_array().context("history")?.iter().map(|step| &step["action"]).collect();
    assert_eq!(actions, ["roll-back", "publish", "refuse", "publish"], "{history}");
    Ok(())
}

/// The jobs that train. Other jobs make snapshots of what a training has published.
fn trainings(server: &Server) -> anyhow::Result<Vec<Value>> {
    let jobs = server.get("/api/v1/jobs")?;
    let trains = |job: &&Value| job["request"]["kind"] == json!("train");
    Ok(jobs.as_array().context("jobs")?.iter().filter(trains).cloned().collect())
}

/// Waits for the model of the first training.
fn trained(server: &Server) -> anyhow::Result<String> {
    let start = Instant::now();
    loop {
        let trainings = trainings(server)?;
        if let Some(training) = trainings.first() {
            ensure!(training["state"] != json!("failed"), "training failed: {training}");
            if let Some(model) = training["model"].as_str() {
                return Ok(model.to_owned());
            }
        }
        ensure!(
            start.elapsed() < Duration::from_secs(400),
            "training is not done after 400 s: {trainings:?}"
        );
        std::thread::sleep(Duration::from_millis(500));
    }
}

fn published(server: &Server) -> anyhow::Result<String> {
    let models = server.get(&format!("/api/v1/models?hardware={SIMULATED}"))?;
    let mut models = models.as_array().context("models")?.iter();
    let model = models.find(|model| model["state"] == json!("published")).context("none is published")?;
    Ok(model["id"].as_str().context("an id")?.to_owned())
}

/// Imports a model that was trained for one epoch only.
fn hardly_trained(folder: &Path, server: &Server) -> anyhow::Result<String> {
    let dataset = format!("{SIMULATED}.msgpack.zst");
    std::fs::write(folder.join(&dataset), server.bytes(&format!("/api/v1/datasets/{dataset}"))?)?;
    let release = format!("release/matmul/{SIMULATED}");
    std::fs::create_dir_all(folder.join(&release))?;
    let model = format!("{release}/other.safetensors");
    diode(folder, &["train", "--data", &dataset, "--model", &model, "--epochs", "1", "--folds", "0"])?;
    admin(folder, &["seed", "release"])?;
    let models = server.get(&format!("/api/v1/models?hardware={SIMULATED}"))?;
    assert_eq!((&models[0]["source"], &models[0]["state"]), (&json!("shipped"), &json!("unpublished")));
    Ok(models[0]["id"].as_str().context("an id")?.to_owned())
}

fn predicts(folder: &Path, server: &Server, model: &str) -> anyhow::Result<()> {
    let bytes = server.bytes(&format!("/api/v1/models/{model}/download"))?;
    std::fs::write(folder.join("model.safetensors"), bytes)?;
    let problem = ["--op", "mm", "--m", "512", "--n", "512", "--k", "512", "--dtype", "bfloat16"];
    let ask = ["predict", "--model", "model.safetensors", "--top", "5", "--json"];
    let predicted = diode_json(folder, &[&ask[..], &problem].concat())?;
    assert_eq!(predicted["candidates"].as_array().map(Vec::len), Some(5));
    Ok(())
}

/// Runs `diode-server admin` on the database in a folder.
fn admin(folder: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = server_command(folder, &["admin"])?;
    let status = command.args(arguments).stdout(Stdio::null()).status()?;
    ensure!(status.success(), "{arguments:?} failed");
    Ok(())
}

#[test]
fn a_cpu_measures_one_lease_and_ends() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::start(folder.path())?;
    let flags = ["--backend", "cpu", "--once", "--lease", "5s", "--ops", "mm", "--dtypes", "float32"];
    let mut agent = Agent::start(folder.path(), "node", server.url(), &flags)?;
    let status = agent.child.wait()?;
    assert_eq!(status.code(), Some(0));
    let agents = server.get("/api/v1/agents")?;
    let measured = agents[0]["measured"].as_u64().context("measured")?;
    ensure!(measured > 0, "{agents}");
    let slug = agents[0]["hardware"].as_str().context("hardware")?;
    let waiting = || -> anyhow::Result<Option<u64>> {
        Ok(server.get(&format!("/api/v1/hardware/{slug}/coverage"))?["waiting"].as_u64())
    };
    let before = waiting()?;
    let want = ["want", "17x333x71", "19x333x71", "--dtype", "float32", "--hardware", slug, "--server"];
    diode(folder.path(), &[&want[..], &[server.url()]].concat())?;
    assert_eq!(waiting()?, before.map(|before| before + 2));
    assert_eq!(agents[0]["simulated"], json!(false));
    let coverage = server.get(&format!("/api/v1/hardware/{slug}/coverage"))?;
    assert_eq!((&coverage["problems"], &coverage["leased"]), (&json!(measured), &json!(0)));
    assert_eq!(agent.health()?["devices"]["node"]["doing"], json!("ended"));
    Ok(())
}

#[test]
fn made_up_times_are_refused_by_servers_that_do_not_want_them() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::start(folder.path())?;
    let arguments = ["agent", "--server", server.url(), "--backend", "simulated", "--home", "home"];
    let output = diode_command(folder.path(), &arguments)?.output()?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("--accept-simulated"), "{words}");
    Ok(())
}

#[test]
fn an_agent_waits_for_its_hours() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::start_with(folder.path(), &["--accept-simulated"])?;
    // The hour by the agent's own clock.
    let date = std::process::Command::new("date").arg("+%H").output()?;
    let hour: u32 = String::from_utf8(date.stdout)?.trim().parse()?;
    let later = format!("{:02}:00-{:02}:00", (hour + 6) % 24, (hour + 7) % 24);
    let flags = ["--backend", "simulated", "--hours", &later, "--share", "0.5", "--log-format", "json"];
    let agent = Agent::start(folder.path(), "one", server.url(), &flags)?;
    until("it waits", || Ok(agent.health()?["devices"]["one"]["doing"] == json!("waiting for its hours")))?;
    assert_eq!(agent.terminate()?, Some(0));
    let agents = server.get("/api/v1/agents")?;
    assert_eq!((&agents[0]["measured"], &agents[0]["lease"]), (&json!(0), &json!(null)), "{agents}");
    Ok(())
}
