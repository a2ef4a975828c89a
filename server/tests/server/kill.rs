//! The built binary: killed without warning, started twice at once, out of disk space, without a log.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use diode_core::api::{HardwareSummary, Receipt};

use crate::samples::{columnar, seven};

struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(folder: &Path) -> Self {
        Self::started(Self::command(folder).spawn().unwrap())
    }

    fn command(folder: &Path) -> Command {
        // The shell has the server told that a file may not grow, instead of killing it.
        let mut command = Command::new("sh");
        command
            .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_diode-server")])
            .args(["serve", "--listen", "127.0.0.1:0", "--no-worker"])
            .args(["--database-url", "sqlite:diode.db", "--blobs", "blobs"])
            .current_dir(folder)
            .env_remove("DATABASE_URL")
            .stdout(Stdio::piped());
        command
    }

    fn started(mut process: Child) -> Self {
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("got {line:?}"));
        Self { process, address: address.to_owned() }
    }

    fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> T {
        ureq::get(format!("{}{path}", self.address)).call().unwrap().body_mut().read_json().unwrap()
    }

    /// The status of a request, with `body` or without.
    fn status(&self, path: &str, body: Option<&[u8]>) -> u16 {
        let agent =
            ureq::Agent::new_with_config(ureq::Agent::config_builder().http_status_as_error(false).build());
        let url = format!("{}{path}", self.address);
        let reply = match body {
            Some(body) => agent.post(url).send(body),
            None => agent.get(url).call(),
        };
        reply.unwrap().status().as_u16()
    }

    /// Lets no file of the process grow beyond so many bytes, as if the disk were full.
    fn limit_files(&self, bytes: &str) {
        let limit = format!("--fsize={bytes}:unlimited");
        let set = Command::new("prlimit").args(["--pid", &self.process.id().to_string(), &limit]).status();
        assert!(set.unwrap().success(), "prlimit (of util-linux) could not limit the size of files");
    }

    /// SIGKILL: no destructor, no flush, nothing.
    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
fn a_receipt_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = columnar(&seven());
    let server = Server::start(folder.path());
    let mut reply = ureq::post(format!("{}/api/v1/uploads", server.address)).send(&bytes).unwrap();
    let receipt: Receipt = reply.body_mut().read_json().unwrap();
    server.kill();

    let server = Server::start(folder.path());
    let kept: Receipt = server.get(&format!("/api/v1/uploads/{}", receipt.id));
    assert_eq!(kept, Receipt { already_stored: true, ..receipt.clone() });
    let hardware: HardwareSummary = server.get("/api/v1/hardware/nvidia-h200");
    assert_eq!((hardware.problems, hardware.timings), (7, 42));
    let blob = std::fs::read(folder.path().join("blobs/uploads").join(receipt.digest.as_str())).unwrap();
    assert_eq!(blob, bytes);
    server.kill();
}

#[test]
fn processes_may_start_at_once_on_one_empty_database() {
    for _ in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let processes: Vec<Child> = (0..4).map(|_| Server::command(folder.path()).spawn().unwrap()).collect();
        for server in processes.into_iter().map(Server::started).collect::<Vec<_>>() {
            assert_eq!(server.status("/readyz", None), 200);
            server.kill();
        }
    }
}

#[test]
fn a_log_that_cannot_be_written_loses_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let process = Server::command(folder.path()).env("DIODE_LOG", "trace").stderr(full).spawn().unwrap();
    let server = Server::started(process);
    assert_eq!(server.status("/api/v1/uploads", Some(&columnar(&seven()))), 201);
    assert_eq!(server.status("/api/v1/hardware/nvidia-h200", None), 200);
    server.kill();
}

#[test]
fn a_full_disk_is_told_and_survived() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    assert_eq!(server.status("/readyz", None), 200);
    server.limit_files("1000");
    assert!([503, 507].contains(&server.status("/readyz", None)));
    assert_eq!(server.status("/api/v1/uploads", Some(&[b' '; 100_000])), 507);
    assert!([503, 507].contains(&server.status("/api/v1/uploads", Some(&columnar(&seven())))));
    assert_eq!(server.status("/healthz", None), 200);
    assert_eq!(server.status("/api/v1/hardware", None), 200);
    server.limit_files("unlimited");
    assert_eq!(server.status("/readyz", None), 200);
    assert_eq!(server.status("/api/v1/uploads", Some(&columnar(&seven()))), 201);
    server.kill();
}
