//! Tests of the built program: killed without warning, started twice at once, without disk space, without a
//! log.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use diode_api::{HardwareSummary, Receipt};
use diode_core::ids::Digest;

use crate::postgres;
use crate::process::Server;
use crate::samples::{columnar, dataset, h200, mm, seven};
use crate::storage::{Mood, SECRET, Storage};

/// How often a server is killed while uploads arrive.
const ROUNDS: u64 = 20;

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
    for made in ["diode.db", "blobs"] {
        let mode = std::fs::metadata(folder.path().join(made)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{made} is for its owner alone: {mode:o}");
    }
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
    server.wait_until_ready_says(&[503, 507]);
    assert_eq!(server.status("/api/v1/uploads", Some(&[b' '; 100_000])), 507);
    assert!([503, 507].contains(&server.status("/api/v1/uploads", Some(&columnar(&seven())))));
    let uploads = folder.path().join("blobs/uploads");
    let start = Instant::now();
    while std::fs::read_dir(&uploads).map_or(0, Iterator::count) > 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "what is refused for want of room takes none");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(server.status("/healthz", None), 200);
    assert_eq!(server.status("/api/v1/hardware", None), 200);
    server.limit_files("unlimited");
    server.wait_until_ready_says(&[200]);
    assert_eq!(server.status("/api/v1/uploads", Some(&columnar(&seven()))), 201);
    server.kill();
}

#[test]
fn the_log_is_json_names_requests_and_keeps_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut command = Server::command(folder.path());
    let command = command.args(["--log-format", "json"]).env("DIODE_LOG", "trace");
    let server = Server::started(command.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap());
    std::fs::rename(folder.path().join("blobs"), folder.path().join("away")).unwrap();
    let agent =
        ureq::Agent::new_with_config(ureq::Agent::config_builder().http_status_as_error(false).build());
    let get = |path: &str| agent.get(format!("{}{path}", server.address)).call().unwrap();
    let refused = get("/readyz");
    assert_eq!(refused.status(), 503);
    get("/sign-up?invitation=a-secret-of-somebody");
    get("/api/v1/uploads?token=a-secret-of-somebody");
    let id = refused.headers()["x-request-id"].to_str().unwrap();
    server.kill();
    let text = std::fs::read_to_string(log).unwrap();
    let of_server = |line: &serde_json::Value| line["target"].as_str().unwrap().starts_with("diode_server");
    // The first lines are not JSON: they show people the link for the first account.
    let json = text.lines().filter(|line| line.starts_with('{'));
    let lines: Vec<serde_json::Value> = json.map(|line| serde_json::from_str(line).unwrap()).collect();
    let named: Vec<_> = lines.iter().filter(|line| line["span"]["request_id"] == id).collect();
    let told = named.iter().find(|line| line["level"] == "ERROR" && of_server(line)).unwrap();
    assert_eq!((&told["span"]["method"], &told["span"]["path"]), (&"GET".into(), &"/readyz".into()));
    assert!(told["message"].as_str().unwrap().contains("put it back"), "{told}");
    assert!(lines.iter().any(|line| line["span"]["path"] == "/sign-up"));
    assert!(!text.contains("a-secret-of-somebody"), "{text}");
}

/// Several clients upload until the server is killed. Afterwards every upload with a receipt exists to the
/// byte, and nothing exists in part.
fn survives_any_moment_of_death(postgres: Option<&str>, storage: Option<&Storage>) {
    let folder = tempfile::tempdir().unwrap();
    let url = postgres.unwrap_or("sqlite:diode.db");
    let variables = match storage {
        None => vec![("DIODE_BLOBS", "blobs".to_owned())],
        Some(storage) => storage.variables().to_vec(),
    };
    let files = storage.map_or_else(|| folder.path().join("blobs"), |storage| storage.files("diode"));
    let start = || {
        let mut command = Server::command_on(folder.path(), url);
        Server::started(command.envs(variables.iter().cloned()).spawn().unwrap())
    };
    let (next, kept) = (AtomicU64::new(1), Mutex::new(Vec::new()));
    for round in 0..ROUNDS {
        let server = start();
        let upload = format!("{}/api/v1/uploads", server.address);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let m = 64 * next.fetch_add(1, Ordering::Relaxed);
                        let bytes = columnar(&dataset(h200(), &[mm(m, 512, 512), mm(m, 1024, 512)], 1.0));
                        let Ok(mut reply) = ureq::post(&upload).send(&bytes) else { break };
                        let Ok(receipt) = reply.body_mut().read_json::<Receipt>() else { break };
                        kept.lock().unwrap().push((receipt, bytes));
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(200 + 37 * round));
            server.kill();
        });
    }
    let server = start();
    let kept = kept.into_inner().unwrap();
    assert!(!kept.is_empty(), "no upload was acknowledged before the first kill");
    for (receipt, bytes) in &kept {
        let there: Receipt = server.get(&format!("/api/v1/uploads/{}", receipt.id));
        assert_eq!((there.new_solutions, &there.digest), (2, &receipt.digest));
        assert_eq!(&std::fs::read(files.join("uploads").join(receipt.digest.as_str())).unwrap(), bytes);
    }
    server.kill();
    for file in std::fs::read_dir(files.join("uploads")).unwrap() {
        let path = file.unwrap().path();
        // Files with other names were being written: a file gets its digest as its name when it is complete.
        if let Ok(digest) = path.file_name().unwrap().to_str().unwrap().parse::<Digest>() {
            assert_eq!(Digest::of(&std::fs::read(path).unwrap()), digest);
        }
    }
    let verify = Command::new(env!("CARGO_BIN_EXE_diode-server"))
        .args(["admin", "verify", "--database-url", url])
        .envs(variables)
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(verify.status.success(), "{}", String::from_utf8_lossy(&verify.stderr));
    println!("{} acknowledged uploads survived {ROUNDS} kills", kept.len());
}

#[test]
fn what_was_acknowledged_survives_any_moment_of_death() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    survives_any_moment_of_death(None, None);
    let postgres = runtime.block_on(postgres::create("killed"));
    survives_any_moment_of_death(Some(&postgres), None);
    runtime.block_on(postgres::remove(&postgres));
}

#[test]
fn what_was_acknowledged_survives_with_its_files_in_a_bucket() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    survives_any_moment_of_death(None, Some(&runtime.block_on(Storage::start())));
    let postgres = runtime.block_on(postgres::create("killed_bucket"));
    survives_any_moment_of_death(Some(&postgres), Some(&runtime.block_on(Storage::start())));
    runtime.block_on(postgres::remove(&postgres));
}

#[test]
fn keys_of_storage_are_in_no_log_and_no_answer() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let storage = runtime.block_on(Storage::start());
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut command = Server::command(folder.path());
    command.envs(storage.variables()).env("DIODE_LOG", "trace");
    let server = Server::started(command.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap());
    assert_eq!(server.status("/api/v1/uploads", Some(&columnar(&seven()))), 201);
    storage.set(Mood::NoBucket);
    assert_eq!(server.status("/readyz", None), 503);
    server.kill();
    let settings = Command::new(env!("CARGO_BIN_EXE_diode-server"))
        .arg("settings")
        .envs(storage.variables())
        .current_dir(folder.path())
        .output()
        .unwrap();
    let told = String::from_utf8(settings.stdout).unwrap();
    assert!(told.contains("s3://timings/diode") && told.contains("AWS_ENDPOINT_URL"), "{told}");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("NoSuchBucket"), "the cause is in the log");
    assert!(!log.contains(SECRET) && !told.contains(SECRET));
}
