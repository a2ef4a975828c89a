use std::path::Path;
use std::process::{Command, Stdio};

use diode_api::Standing;
use diode_core::ids::Digest;
use diode_server::accounts::SignUps;
use diode_server::admin::{Seeded, Swept, seed, sweep, verify};
use diode_server::blobs::BlobKind;
use diode_server::store::Now;

use crate::agents::{h200_registration, register, take};
use crate::process::Server;
use crate::samples::{collected, columnar, json, seven};
use crate::test_app::TestApp;
use crate::tls::certify;
use crate::trust::{send, settle, timed};
use crate::visitor::Visitor;

#[tokio::test]
async fn seeding_twice_imports_once() {
    let app = TestApp::new().await;
    let data = app.folder.path().join("trained_models/matmul/nvidia-h200/data");
    std::fs::create_dir_all(&data).unwrap();
    diode_formats::write_atomically(&data.join("a.msgpack.zst"), &columnar(&seven())).unwrap();
    diode_formats::write_atomically(&data.join("b.json"), &json(&seven())).unwrap();
    diode_formats::write_atomically(&data.join("README.md"), b"not a dataset").unwrap();
    let folder = app.folder.path().join("trained_models");
    let first = seed(&app.backend, &folder).await.unwrap();
    assert_eq!(first, Seeded { datasets: 2, new_datasets: 2, models: 0, new_models: 0 });
    let again = seed(&app.backend, &folder).await.unwrap();
    assert_eq!(again, Seeded { datasets: 2, new_datasets: 0, models: 0, new_models: 0 });
    let error = seed(&app.backend, app.blobs()).await.unwrap_err().to_string();
    assert!(error.contains("expected"), "{error}");
}

#[tokio::test]
async fn verification_finds_what_was_tampered_with() {
    let app = TestApp::with_seven().await;
    app.receipt(columnar(&collected())).await;
    let clean = verify(&app.backend).await.unwrap();
    assert_eq!((clean.entries, clean.differences.len()), (8, 0), "{clean}");

    let options = app.data.database_url.parse::<sqlx::sqlite::SqliteConnectOptions>().unwrap();
    let raw = sqlx::SqlitePool::connect_with(options).await.unwrap();
    sqlx::query("UPDATE entries SET best_us = best_us / 2 WHERE method <> 'unspecified'")
        .execute(&raw)
        .await
        .unwrap();
    let tampered = verify(&app.backend).await.unwrap();
    assert_eq!(tampered.damaged.len(), 1);
    assert!(tampered.to_string().contains("median-cold-event"), "{tampered}");
}

pub(crate) async fn tamper(app: &TestApp, statement: &'static str) {
    let options = app.data.database_url.parse::<sqlx::sqlite::SqliteConnectOptions>().unwrap();
    let raw = sqlx::SqlitePool::connect_with(options).await.unwrap();
    sqlx::query(statement).execute(&raw).await.unwrap();
    raw.close().await;
}

#[tokio::test]
async fn damage_costs_its_own_row_and_no_other() {
    let app = TestApp::with_seven().await;
    tamper(&app, "UPDATE solutions SET columns = x'00' WHERE id IN (2, 5)").await;
    tamper(
        &app,
        "UPDATE entries SET entry = 'damaged' WHERE problem = (SELECT problem FROM solutions WHERE id = 3)",
    )
    .await;
    let verified = verify(&app.backend).await.unwrap();
    assert!(!verified.is_clean());
    // Two views have no computed entry, because columns of their solutions cannot be read. A third view has
    // an entry that cannot be read itself.
    assert_eq!(
        (verified.entries, verified.differences.len(), verified.damaged.len()),
        (7, 2, 3),
        "{verified}"
    );
    let dataset = app.get("/api/v1/datasets/nvidia-h200.msgpack.zst").await;
    assert_eq!((dataset.status.as_u16(), dataset.header("diode-left-out")), (200, "2"));
    assert_eq!(diode_formats::decode(&dataset.body).unwrap().datasets[0].solutions.len(), 5);
    // An upload for a damaged view is stored like any other.
    let again = crate::samples::dataset(crate::samples::h200(), &[crate::samples::mm(1024, 1024, 1024)], 1.2);
    assert_eq!(app.upload(columnar(&again)).await.status, 201);
}

#[tokio::test]
async fn missing_blobs_are_reported_and_orphans_removed() {
    let app = TestApp::with_seven().await;
    let receipt = app.receipt(columnar(&collected())).await;
    std::fs::remove_file(app.blobs().join("uploads").join(receipt.digest.as_str())).unwrap();
    let orphan = Digest::of(b"orphan");
    app.backend.blobs.put(BlobKind::Upload, &orphan, b"orphan".to_vec().into()).await.unwrap();
    let verified = verify(&app.backend).await.unwrap();
    assert_eq!((verified.missing.len(), verified.orphans), (1, 1), "{verified}");
    assert!(verified.to_string().contains(receipt.digest.as_str()), "{verified}");

    let now = Now::read();
    assert_eq!(sweep(&app.backend, false, now).await.unwrap(), Swept { removed: 0, young: 1 });
    let later = Now(now.0 + std::time::Duration::from_secs(2 * 3600));
    assert_eq!(sweep(&app.backend, false, later).await.unwrap(), Swept { removed: 1, young: 0 });
    assert_eq!(verify(&app.backend).await.unwrap().orphans, 0);
    // If no server runs, the blobs that a full disk has left can be removed at once.
    app.backend.blobs.put(BlobKind::Upload, &orphan, b"orphan".to_vec().into()).await.unwrap();
    assert_eq!(app.admin(&["sweep"]).2, "0 blobs that no row names removed; 1 younger than an hour kept\n");
    assert!(app.admin(&["sweep", "--young"]).2.starts_with("1 blobs that no row names removed"));
}

#[test]
fn commands_that_look_after_data_make_none() {
    let folder = tempfile::tempdir().unwrap();
    let backup = ["backup", "elsewhere"];
    let quarantine = ["quarantine", "0123456789abcdef", "--reason", "x"];
    for command in
        [&["verify"][..], &backup, &["sweep"], &["accounts"], &["disable", "ada"], &quarantine, &["log"]]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_diode-server"))
            .arg("admin")
            .args(command)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{command:?}: {error}");
        assert!(error.contains("there is no file diode.db"), "{command:?}: {error}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was made");
}

#[tokio::test]
async fn changed_blobs_are_reported() {
    let app = TestApp::with_seven().await;
    let receipt = app.receipt(columnar(&collected())).await;
    let file = app.blobs().join("uploads").join(receipt.digest.as_str());
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    #[allow(clippy::disallowed_methods, reason = "the file is to be broken")]
    std::fs::write(&file, bytes).unwrap();
    let verified = verify(&app.backend).await.unwrap();
    assert!(!verified.is_clean() && verified.missing.is_empty(), "{verified}");
    assert_eq!(verified.changed.len(), 1);
    assert!(verified.to_string().contains(&format!("{} of", receipt.digest)), "{verified}");
}

#[tokio::test]
async fn standings_that_do_not_follow_from_the_timings_are_found() {
    let app = TestApp::public(SignUps::Open).await;
    let mut newest = None;
    for (name, factor) in [("ada", 1.0), ("bob", 1.01), ("cyd", 0.99), ("dan", 1.02), ("eve", 0.5)] {
        newest = Some(send(&Visitor::signed_up(&app, name).await, &timed(factor)).await);
    }
    settle(app.backend.store.as_ref()).await;
    let lie = app.backend.store.receipt(&newest.unwrap().id).await.unwrap().unwrap();
    assert_eq!(lie.standing, Standing::Fenced);
    let clean = verify(&app.backend).await.unwrap();
    assert!(clean.is_clean() && clean.uploads == 5, "{clean}");

    // Each of these changes is found on its own, and is then undone.
    for (change, undo, found) in [
        (
            "UPDATE uploads SET log_ratio = log_ratio * 2 WHERE standing = 1",
            "UPDATE uploads SET log_ratio = log_ratio / 2 WHERE standing = 1",
            "(standing, log-ratio, problems)",
        ),
        (
            "UPDATE uploads SET standing = 0 WHERE standing = 1",
            "UPDATE uploads SET standing = 1 WHERE log_ratio < -0.5",
            "stored (Counts",
        ),
        (
            "UPDATE deviations SET log_ratio = log_ratio * 2 WHERE log_ratio < -0.5",
            "UPDATE deviations SET log_ratio = log_ratio / 2 WHERE log_ratio < -0.5",
            "deviations stored",
        ),
        (
            "UPDATE solutions SET standing = standing + 1 WHERE id = 1",
            "UPDATE solutions SET standing = standing - 1 WHERE id = 1",
            "solution 1: counts otherwise",
        ),
        (
            "UPDATE uploads SET hardware = 'damaged' WHERE standing = 1",
            "UPDATE uploads SET hardware = '[]' WHERE standing = 1",
            "upload's hardware",
        ),
    ] {
        tamper(&app, change).await;
        let verified = verify(&app.backend).await.unwrap();
        assert!(!verified.is_clean() && verified.to_string().contains(found), "{change}: {verified}");
        tamper(&app, undo).await;
        let verified = verify(&app.backend).await.unwrap();
        assert!(verified.is_clean(), "{undo}: {verified}");
    }
}

#[tokio::test]
async fn nothing_is_swept_while_a_row_that_names_a_blob_cannot_be_read() {
    let app = TestApp::with_seven().await;
    tamper(&app, "UPDATE uploads SET bytes = -1").await;
    let later = Now(Now::read().0 + std::time::Duration::from_secs(2 * 3600));
    let error = sweep(&app.backend, false, later).await.unwrap_err().to_string();
    assert!(error.contains("nothing was removed") && error.contains("upload size"), "{error}");
    let verified = verify(&app.backend).await.unwrap();
    assert_eq!((verified.damaged.len(), verified.orphans), (1, 1), "{verified}");
}

#[tokio::test]
async fn rows_of_jobs_and_agents_are_read_too() {
    let app = TestApp::with_seven().await;
    let job = app.train_h200().await;
    let agent = register(&app, &h200_registration()).await;
    let lease = take(&app, &agent).await;
    let clean = verify(&app.backend).await.unwrap();
    assert!(clean.is_clean() && clean.rows > 3, "{clean}");
    for (statement, words) in [
        ("UPDATE jobs SET request = '{}'", format!("job {}: ", job.id)),
        ("UPDATE job_events SET state = 'lost'", format!("an event of job {}: ", job.id)),
        ("UPDATE leases SET state = 'lost'", format!("lease {}: ", lease.id)),
        (
            "UPDATE work SET fields = 'x' WHERE position = (SELECT MIN(position) FROM work)",
            "work 1: ".to_owned(),
        ),
        ("UPDATE agents SET registration = '[]'", format!("agent {}: ", agent.id)),
    ] {
        tamper(&app, statement).await;
        let verified = verify(&app.backend).await.unwrap();
        assert!(verified.damaged.iter().any(|damaged| damaged.starts_with(&words)), "{words}{verified}");
    }
}

/// A field that a new version adds to entries is not there until they are computed again. The version says which were.
#[tokio::test]
async fn entries_of_an_earlier_version_are_computed_again() {
    for app in TestApp::on_both("earlier_entries").await {
        app.receipt(columnar(&collected())).await;
        let store = &app.backend.store;
        while store.refresh_entries().await.unwrap() > 0 {}
        let view = store.views().await.unwrap().remove(0);
        let whole = store.board_entry(&view).await.unwrap().unwrap();
        let json = serde_json::to_string(&whole).unwrap();
        let without = json.replacen("\"roofline_share\":", "\"older\":", 1);
        assert_ne!(without, json);
        let update = format!("UPDATE entries SET entry = '{without}' WHERE problem = '{}'", view.problem);
        app.execute(&update).await;
        assert_eq!(store.board_entry(&view).await.unwrap().unwrap().roofline_share, None);
        assert_eq!(store.stale_entries().await.unwrap(), []);
        app.execute("UPDATE hardware SET entry_version = 0").await;
        assert!(store.stale_entries().await.unwrap().contains(&view));
        while store.refresh_entries().await.unwrap() > 0 {}
        assert_eq!(store.board_entry(&view).await.unwrap().unwrap(), whole);
        assert_eq!(store.stale_entries().await.unwrap(), []);
        app.end().await;
    }
}

/// What `doctor` says of a thing, if it says something.
fn said<'a>(all: &'a str, about: &str) -> Vec<&'a str> {
    all.lines().filter(|line| line.split_whitespace().nth(1) == Some(about)).collect()
}

fn doctor(folder: &Path, url: &str, more: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diode-server"));
    command.arg("doctor").args(["--database-url", url, "--blobs", "blobs"]).args(more).current_dir(folder);
    let output = command.env_remove("DATABASE_URL").output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[tokio::test]
async fn a_doctor_finds_what_is_wrong_and_says_what_to_do() {
    for app in TestApp::on_both("doctor").await {
        let url = &app.data.database_url;
        let (code, all) = doctor(app.folder.path(), url, &[]);
        assert_eq!(code, Some(0), "{all}");
        for about in ["settings", "database", "blobs"] {
            assert!(said(&all, about)[0].starts_with("fine"), "{all}");
        }
        let is_postgres = url.starts_with("postgres");
        assert_eq!(!said(&all, "clock").is_empty(), is_postgres, "{all}");
        assert_eq!(!said(&all, "backup").is_empty(), is_postgres, "{all}");

        app.execute("UPDATE _sqlx_migrations SET version = 99").await;
        let (code, all) = doctor(app.folder.path(), url, &[]);
        assert_eq!(code, Some(1), "{all}");
        assert!(said(&all, "database")[0].contains("version 99") && all.contains("install that"), "{all}");
        app.execute("UPDATE _sqlx_migrations SET version = 0").await;
        let (code, all) = doctor(app.folder.path(), url, &[]);
        assert_eq!(code, Some(0), "{all}");
        assert!(said(&all, "database")[0].contains("make a backup"), "{all}");
        app.end().await;
    }
}

#[tokio::test]
async fn a_doctor_sees_a_wrong_proxy_and_a_wrong_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let url = "sqlite:diode.db";
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let public = format!("http://127.0.0.1:{port}");
    let behind = ["--behind-proxy", "--public-url", &public];
    let (code, all) = doctor(folder.path(), url, &behind);
    assert_eq!(code, Some(1), "{all}");
    assert!(said(&all, "public")[0].contains("cannot be reached"), "{all}");
    assert!(said(&all, "database")[0].contains("is not there"), "{all}");

    // A server without a proxy in front of it believes what the client says.
    let mut command = Command::new(env!("CARGO_BIN_EXE_diode-server"));
    command.args(["serve", "--no-worker", "--listen", &format!("127.0.0.1:{port}"), "--database-url", url]);
    command.args(["--blobs", "blobs"]).args(behind).current_dir(folder.path()).stdout(Stdio::piped());
    let mut server = Server::started(command.env_remove("DATABASE_URL").spawn().unwrap());
    let (code, all) = doctor(folder.path(), url, &behind);
    server.process.kill().unwrap();
    server.process.wait().unwrap();
    assert_eq!(code, Some(1), "{all}");
    assert!(said(&all, "proxy")[0].contains("let it append"), "{all}");
    assert!(
        said(&all, "public")[0].starts_with("fine") && said(&all, "clock")[0].starts_with("fine"),
        "{all}"
    );

    let (files, _) = certify(folder.path());
    let [certificate, key] = [files.certificate, files.key].map(|file| file.display().to_string());
    let tls = ["--tls-certificate", &certificate, "--tls-key", &key, "--public-url", "https://localhost"];
    let (code, all) = doctor(folder.path(), url, &tls);
    assert_eq!(code, Some(1), "{all}");
    assert!(said(&all, "tls")[0].contains("no public authority"), "{all}");
}
