//! A receipt is a promise: the process may be killed the moment after.

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
        let mut process = Command::new(env!("CARGO_BIN_EXE_diode-server"))
            .args(["serve", "--listen", "127.0.0.1:0", "--no-worker"])
            .args(["--database-url", "sqlite:diode.db", "--blobs", "blobs"])
            .current_dir(folder)
            .env_remove("DATABASE_URL")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("got {line:?}"));
        Self { process, address: address.to_owned() }
    }

    fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> T {
        ureq::get(format!("{}{path}", self.address)).call().unwrap().body_mut().read_json().unwrap()
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
