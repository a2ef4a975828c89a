//! Makes an administrator of a server, in the way its operator does.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use diode_api::Scope;
use serde_json::{Value, json};

use crate::programs::{Server, program};

const PASSWORD: &str = "correct horse battery staple";

/// Makes an administrator of a server in a folder. Returns the administrator's token for managing the
/// server.
pub fn administrator_token(folder: &Path, server: &Server) -> anyhow::Result<String> {
    token(folder, server, &[Scope::Admin])
}

/// Makes an administrator of a server in a folder. Returns the administrator's token with some scopes.
pub fn token(folder: &Path, server: &Server, scopes: &[Scope]) -> anyhow::Result<String> {
    let create = ["admin", "create", "root", "--admin"];
    let made = Command::new(program("diode-server")?)
        .current_dir(folder)
        .args(create)
        .env_remove("DATABASE_URL")
        .output()
        .context("cannot start diode-server")?;
    let said = String::from_utf8_lossy(&made.stdout).into_owned();
    let secret = said.lines().next().and_then(|link| link.split_once("link=")).map(|(_, secret)| secret);
    let Some(secret) = secret else { bail!("no link: {said} {}", String::from_utf8_lossy(&made.stderr)) };
    let password = PASSWORD.replace(' ', "+");
    let chosen = format!("link={secret}&password={password}");
    let post = |path: &str| ureq::post(format!("{}{path}", server.url())).header("origin", server.url());
    post("/password").content_type("application/x-www-form-urlencoded").send(chosen)?;
    let session = post("/api/v1/session").send_json(json!({ "name": "root", "password": PASSWORD }))?;
    let cookie = session.headers().get("set-cookie").context("a session has a cookie")?.to_str()?;
    let cookie = cookie.split(';').next().unwrap_or_default();
    let asked = json!({ "name": "tests", "scopes": scopes });
    let mut issued = post("/api/v1/tokens").header("cookie", cookie).send_json(asked)?;
    let issued: Value = issued.body_mut().read_json()?;
    Ok(issued["secret"].as_str().context("a token has a secret")?.to_owned())
}

/// Asks for a snapshot of the server's H100 dataset, and waits for it. Returns its version.
pub fn snapshot_of_h100(server: &Server, token: &str) -> anyhow::Result<String> {
    let ask = json!({ "hardware": "nvidia-h100", "reason": "for the paper" });
    let mut asked = ureq::post(format!("{}/api/v1/snapshots", server.url()))
        .header("authorization", format!("Bearer {token}"))
        .send_json(ask)?;
    let job: Value = asked.body_mut().read_json()?;
    let id = job["id"].as_str().context("a job has an id")?;
    // The stream ends when the job ends.
    server.bytes(&format!("/api/v1/jobs/{id}/events"))?;
    let job = server.get(&format!("/api/v1/jobs/{id}"))?;
    Ok(job["snapshot"].as_str().with_context(|| job.to_string())?.to_owned())
}
