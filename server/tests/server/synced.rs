//! Tests by a trace of the system calls that acknowledged data is on the disk.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use diode_api::Receipt;

use crate::process::Server;
use crate::samples::{columnar, seven};

/// The server's system calls during one upload, in their order, each with the names of its files.
fn traced_upload(folder: &Path) -> (Receipt, Vec<String>) {
    let trace = folder.join("trace");
    let server = Server::start(folder);
    let mut tracer = Command::new("strace")
        .args([
            "-f",
            "-y",
            "-s",
            "32",
            "-e",
            "trace=fsync,fdatasync,rename,renameat2,link,linkat,write,writev,sendto",
        ])
        .arg("-o")
        .arg(&trace)
        .args(["-p", &server.process.id().to_string()])
        .stdout(Stdio::null())
        .spawn()
        .expect("strace, of the package of that name");
    let began = Instant::now();
    while !std::fs::read_to_string(&trace).is_ok_and(|calls| !calls.is_empty()) {
        // strace is attached once it reports a call. If it may not trace processes, it ends with a message.
        assert_eq!(tracer.try_wait().unwrap(), None, "strace has ended before the upload");
        assert!(began.elapsed() < Duration::from_secs(60), "strace sees no call of the server");
        assert_eq!(server.status("/healthz", None), 200);
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut reply =
        ureq::post(format!("{}/api/v1/uploads", server.address)).send(columnar(&seven())).unwrap();
    let receipt: Receipt = reply.body_mut().read_json().unwrap();
    server.kill();
    tracer.wait().unwrap();
    let calls = std::fs::read_to_string(&trace).unwrap();
    (receipt, calls.lines().map(str::to_owned).collect())
}

#[test]
fn file_folder_and_database_are_synced_before_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let (receipt, calls) = traced_upload(folder.path());
    let after = |from: usize, what: &str, is_it: &dyn Fn(&str) -> bool| {
        let found = calls.iter().skip(from).position(|call| is_it(call));
        from + found.unwrap_or_else(|| panic!("no {what} after call {from} of:\n{}", calls.join("\n")))
    };
    let is_sync = |call: &str| call.contains("fsync(") || call.contains("fdatasync(");
    let digest = receipt.digest.as_str();
    let file = after(0, "sync of the file", &|call| is_sync(call) && call.contains(digest));
    let named = after(file, "name", &|call| call.contains("rename") && call.contains(digest));
    let entry = after(named, "sync of its folder", &|call| is_sync(call) && call.contains("/blobs/uploads>"));
    let row = after(entry, "sync of the database", &|call| is_sync(call) && call.contains("/diode.db-wal>"));
    after(row, "answer", &|call| call.contains("HTTP/1.1 201"));
    assert!(!calls[..row].iter().any(|call| call.contains("HTTP/1.1 201")), "{}", calls.join("\n"));
}
