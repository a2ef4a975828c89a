//! Models that a server trains.

use anyhow::{Context, ensure};
use serde_json::json;

use crate::programs::Server;

/// Has a server train a ranking model of the first hardware in its list, and waits for it. Returns the
/// model's id.
pub fn trained_on_server(server: &Server, seed: u64) -> anyhow::Result<String> {
    let hardware = &server.get("/api/v1/hardware")?[0]["slug"];
    let request = json!({ "kind": "train", "heuristic": "matmul", "hardware": hardware, "seed": seed });
    let job = server.post("/api/v1/jobs", &request)?;
    let id = job["id"].as_str().context("a job has an id")?;
    // The stream ends when the job ends.
    server.bytes(&format!("/api/v1/jobs/{id}/events"))?;
    let job = server.get(&format!("/api/v1/jobs/{id}"))?;
    ensure!(job["state"] == "done", "{job}");
    Ok(job["model"].as_str().with_context(|| job.to_string())?.to_owned())
}
