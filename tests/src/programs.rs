//! The programs under test, as cargo has built them.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};

/// The path of a program in the target folder of this test.
pub(crate) fn program(name: &str) -> anyhow::Result<PathBuf> {
    let test = std::env::current_exe()?;
    let folder = test.parent().and_then(Path::parent).context("a test runs from target/<profile>/deps")?;
    let path = folder.join(name);
    if !path.is_file() {
        bail!("{} is not built; run `cargo build --workspace --bins` first", path.display());
    }
    Ok(path)
}

/// Runs `diode` and returns what it printed to stdout. Its messages go to the test's stderr.
pub fn diode(folder: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output =
        diode_command(folder, arguments)?.stderr(Stdio::inherit()).output().context("cannot start diode")?;
    if !output.status.success() {
        bail!("`diode {}` failed: {}", arguments.join(" "), output.status);
    }
    String::from_utf8(output.stdout).context("diode printed something that is not UTF-8")
}

/// A command that runs `diode` in a folder. The folder also holds its settings.
pub fn diode_command(folder: &Path, arguments: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(program("diode")?);
    command.current_dir(folder).args(arguments).env("XDG_CONFIG_HOME", folder).env_remove("DIODE_TOKEN");
    Ok(command)
}

/// A command that runs `diode-server` in a folder. The folder also holds its data.
pub fn server_command(folder: &Path, arguments: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(program("diode-server")?);
    command.current_dir(folder).args(arguments).env_remove("DATABASE_URL");
    Ok(command)
}

/// Runs `diode … --json`, and parses what it prints, also if some of the list have no answer.
pub fn diode_list(folder: &Path, arguments: &[&str]) -> anyhow::Result<serde_json::Value> {
    let output =
        diode_command(folder, arguments)?.stderr(Stdio::inherit()).output().context("cannot start diode")?;
    serde_json::from_slice(&output.stdout).context("not one JSON document")
}

/// Runs `diode … --json`, and parses the JSON document that it prints.
pub fn diode_json(folder: &Path, arguments: &[&str]) -> anyhow::Result<serde_json::Value> {
    let text = diode(folder, arguments)?;
    serde_json::from_str(&text).with_context(|| format!("not one JSON document: {text:.200}"))
}

/// A process of `diode-server` on SQLite in a folder of its own. It is killed when dropped.
pub struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// Starts a server on a free loopback port, and waits until it listens.
    pub fn start(folder: &Path) -> anyhow::Result<Self> {
        Self::start_with(folder, &[])
    }

    /// Like [`Self::start`], with more flags.
    pub fn start_with(folder: &Path, flags: &[&str]) -> anyhow::Result<Self> {
        Self::start_on(folder, "127.0.0.1:0", flags)
    }

    /// Like [`Self::start_with`], on a given address.
    pub fn start_on(folder: &Path, address: &str, flags: &[&str]) -> anyhow::Result<Self> {
        let mut child = server_command(folder, &["serve", "--listen", address])?
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .context("cannot start diode-server")?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let url = loop {
            let line = lines.next().context("diode-server ended before it listened")??;
            if let Some(url) = line.split("listening on ").nth(1) {
                break url.trim().to_owned();
            }
        };
        // Goes on reading: the server would block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, url })
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The number of the server's process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM, as an operator does, and waits until the server has ended.
    pub fn stop(mut self) -> anyhow::Result<()> {
        let told = Command::new("kill").arg(self.id().to_string()).status().context("cannot start kill")?;
        let ended = self.child.wait()?;
        if !told.success() || !ended.success() {
            bail!("diode-server was told to end, and ended with {ended}");
        }
        Ok(())
    }

    /// Fetches a JSON document of the API.
    pub fn get(&self, path: &str) -> anyhow::Result<serde_json::Value> {
        let mut response =
            ureq::get(format!("{}{path}", self.url)).call().with_context(|| path.to_owned())?;
        Ok(response.body_mut().read_json()?)
    }

    /// Fetches raw bytes.
    pub fn bytes(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        let mut response =
            ureq::get(format!("{}{path}", self.url)).call().with_context(|| path.to_owned())?;
        Ok(response.body_mut().read_to_vec()?)
    }

    /// Posts a JSON document.
    pub fn post(&self, path: &str, body: &serde_json::Value) -> anyhow::Result<serde_json::Value> {
        let mut response =
            ureq::post(format!("{}{path}", self.url)).send_json(body).with_context(|| path.to_owned())?;
        Ok(response.body_mut().read_json()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Times small problems on the CPU, and writes them to a file in the folder. With six problems of sizes up to 160, one
/// is kept for judging models.
pub fn collect_on_cpu(folder: &Path, file: &str, problems: usize, largest: u64) -> anyhow::Result<()> {
    let (problems, largest) = (problems.to_string(), largest.to_string());
    let what = ["--num-shapes", &problems, "--min-size", "32", "--max-size", &largest, "--ops", "mm"];
    let how = ["--seed", "1", "--backend", "cpu", "--dtypes", "float32", "--space", "default"];
    diode(folder, &[&["collect", "--output", file], &what[..], &how[..]].concat()).map(drop)
}

/// The name that the dashboard gives to a candidate of `diode predict --json`.
pub fn config_label(candidate: &serde_json::Value) -> String {
    let [m, n, k, s, w] =
        ["block_m", "block_n", "block_k", "num_stages", "num_warps"].map(|key| candidate[key].to_string());
    match candidate["template"].as_str() {
        Some("aten") => "library".to_owned(),
        _ => format!("{m}x{n}x{k} s{s} w{w}"),
    }
}
