//! The built server as a process of its own.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) struct Server {
    pub(crate) process: Child,
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start(folder: &Path) -> Self {
        Self::started(Self::command(folder).spawn().unwrap())
    }

    pub(crate) fn command(folder: &Path) -> Command {
        Self::command_on(folder, "sqlite:diode.db")
    }

    pub(crate) fn command_on(folder: &Path, database_url: &str) -> Command {
        // The shell makes the server ignore SIGXFSZ, so that a write to a full file fails. Otherwise the signal
        // would kill the server.
        let mut command = Command::new("sh");
        command
            .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_diode-server")])
            .args(["serve", "--listen", "127.0.0.1:0", "--no-worker"])
            .args(["--database-url", database_url])
            .env("DIODE_BLOBS", "blobs")
            .current_dir(folder)
            .env_remove("DATABASE_URL")
            .env_remove("AWS_SESSION_TOKEN")
            .env_remove("AWS_CA_BUNDLE")
            .stdout(Stdio::piped());
        command
    }

    pub(crate) fn started(mut process: Child) -> Self {
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("got {line:?}"));
        Self { process, address: address.to_owned() }
    }

    pub(crate) fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> T {
        ureq::get(format!("{}{path}", self.address)).call().unwrap().body_mut().read_json().unwrap()
    }

    /// The status of the answer to a request, with a body if there is one.
    pub(crate) fn status(&self, path: &str, body: Option<&[u8]>) -> u16 {
        let agent =
            ureq::Agent::new_with_config(ureq::Agent::config_builder().http_status_as_error(false).build());
        let url = format!("{}{path}", self.address);
        let reply = match body {
            Some(body) => agent.post(url).send(body),
            None => agent.get(url).call(),
        };
        reply.unwrap().status().as_u16()
    }

    /// Waits until `/readyz` answers with one of these statuses. The server checks only every few seconds.
    pub(crate) fn wait_until_ready_says(&self, statuses: &[u16]) {
        let began = Instant::now();
        while !statuses.contains(&self.status("/readyz", None)) {
            assert!(began.elapsed() < Duration::from_secs(30), "{statuses:?} never came");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Limits the size of every file of the process, as if the disk were full.
    pub(crate) fn limit_files(&self, bytes: &str) {
        let limit = format!("--fsize={bytes}:unlimited");
        let set = Command::new("prlimit").args(["--pid", &self.process.id().to_string(), &limit]).status();
        assert!(set.unwrap().success(), "prlimit (of util-linux) could not limit the size of files");
    }

    /// SIGKILL: no destructor runs and nothing is flushed.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}
