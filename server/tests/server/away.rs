//! Tests of a server whose database is away, or whose folder cannot be written to.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::postgres;
use crate::process::Server;
use crate::samples::{columnar, dataset, h200, mm};
use crate::test_app::TestApp;

fn file(m: u64) -> Vec<u8> {
    columnar(&dataset(h200(), &[mm(m, 512, 512)], 1.0))
}

#[tokio::test]
async fn postgres_that_is_away_is_told_and_missed_no_longer_than_it_is_away() {
    let [_, app] = TestApp::on_both("away").await;
    assert_eq!(app.upload(file(64)).await.status, 201);
    postgres::shut(&app.data.database_url, true).await;
    let began = Instant::now();
    app.upload(file(128)).await.refusal(503, "unavailable");
    app.get("/readyz").await.refusal(503, "unavailable");
    app.get("/api/v1/hardware").await.refusal(503, "unavailable");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!(app.get("/healthz").await.status, 200);
    postgres::shut(&app.data.database_url, false).await;
    assert_eq!(app.get("/readyz").await.status, 200);
    assert_eq!(app.upload(file(128)).await.status, 201);
    assert_eq!(app.upload(file(64)).await.status, 200, "what was acknowledged is there");
    app.end().await;
}

/// A server whose folder of blobs is a mount of its own, in its own namespace.
fn mounted(folder: &Path) -> Server {
    std::fs::create_dir(folder.join("blobs")).unwrap();
    let mut command = Command::new("unshare");
    command
        .args(["--map-root-user", "--mount", "sh", "-c", "mount --bind blobs blobs && exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_diode-server"))
        .args(["serve", "--listen", "127.0.0.1:0", "--no-worker", "--database-url", "sqlite:diode.db"])
        .env("DIODE_BLOBS", "blobs")
        .current_dir(folder)
        .stdout(Stdio::piped());
    Server::started(command.spawn().expect("unshare, of util-linux"))
}

/// Mounts the folder of blobs again, as `ro` or `rw`.
fn remount(server: &Server, folder: &Path, how: &str) {
    let told = Command::new("nsenter")
        .args(["--user", "--mount", "--preserve-credentials", "--target", &server.process.id().to_string()])
        .args(["mount", "--options", &format!("remount,bind,{how}")])
        .arg(folder.join("blobs"))
        .status();
    assert!(told.unwrap().success(), "nsenter (of util-linux) could not mount the folder anew");
}

#[test]
fn a_folder_that_is_read_only_is_told_and_needs_no_restart_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let server = mounted(folder.path());
    assert_eq!(server.status("/api/v1/uploads", Some(&file(64))), 201);
    remount(&server, folder.path(), "ro");
    assert_eq!(server.status("/api/v1/uploads", Some(&file(128))), 503);
    server.wait_until_ready_says(&[503]);
    assert_eq!(server.status("/healthz", None), 200);
    assert_eq!(server.status("/api/v1/hardware/nvidia-h200/leaderboard", None), 200);
    remount(&server, folder.path(), "rw");
    server.wait_until_ready_says(&[200]);
    assert_eq!(server.status("/api/v1/uploads", Some(&file(128))), 201);
    assert_eq!(server.status("/api/v1/uploads", Some(&file(64))), 200);
    server.kill();
}
