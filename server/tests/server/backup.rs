//! Tests of backups that are made while uploads arrive, and of what a restored server has.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Duration;

use diode_api::Job;
use diode_core::ids::UploadId;
use diode_formats::write_atomically;
use diode_server::accounts::SignUps;
use diode_server::admin::backup::{check, make, restore};
use diode_server::backend::Backend;
use diode_server::blobs::BlobKind;
use diode_server::settings::Data;
use diode_server::store::Now;

use crate::models::summary;
use crate::moderation::administrator;
use crate::picks::MODEL;
use crate::postgres;
use crate::process::Server;
use crate::samples::{columnar, dataset, h200, mm};
use crate::test_app::TestApp;
use crate::tokens::issue;
use crate::trust::{send, settle};
use crate::visitor::{PASSWORD, Visitor};

async fn upload(app: &TestApp, m: u64) -> UploadId {
    app.receipt(columnar(&dataset(h200(), &[mm(m, 512, 512), mm(m, 1024, 512)], 1.0))).await.id
}

/// The settings of another server, with an empty database and no blobs.
async fn elsewhere(app: &TestApp, folder: &Path, name: &str) -> Data {
    let is_postgres = app.data.database_url.starts_with("postgres");
    let sqlite = format!("sqlite:{}", folder.join("restored.db").display());
    let database_url = if is_postgres { postgres::create(name).await } else { sqlite };
    let data = Data { database_url, blobs: folder.join("restored"), ..app.data.clone() };
    match &app.storage {
        None => data,
        Some(storage) => storage.under("restored", data),
    }
}

async fn remove(settings: &Data) {
    if settings.database_url.starts_with("postgres") {
        postgres::remove(&settings.database_url).await;
    }
}

#[tokio::test]
async fn what_was_acknowledged_before_a_backup_is_restored() {
    for app in TestApp::everywhere("backup").await {
        let folder = tempfile::tempdir().unwrap();
        let saved = folder.path().join("backup");
        let (acknowledged, done) = (RefCell::new(Vec::new()), Cell::new(false));
        let uploading = async |first: u64| {
            let mut m = first;
            while !done.get() {
                let id = upload(&app, m).await;
                acknowledged.borrow_mut().push(id);
                m += 4 * 64;
            }
        };
        let saving = async {
            while acknowledged.borrow().len() < 8 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let before = acknowledged.borrow().clone();
            let made = make(&app.backend, &app.data.database_url, &saved).await;
            done.set(true);
            (before, made.unwrap())
        };
        let ((before, made), ..) =
            tokio::join!(saving, uploading(64), uploading(128), uploading(192), uploading(256));
        assert!(made.is_complete() && made.blobs.len() >= before.len(), "{made}");
        let (manifest, problems) = check(&saved).await.unwrap();
        assert_eq!((manifest, problems), (made, Vec::new()));

        let settings = elsewhere(&app, folder.path(), "backup_restored").await;
        let restored = restore(&settings, &saved).await.unwrap();
        assert!(restored.verified.is_clean() && restored.verified.entries >= 2 * before.len(), "{restored}");
        let backend = Backend::open(&settings).await.unwrap();
        for id in &before {
            assert!(backend.store.receipt(id).await.unwrap().is_some(), "{id} was acknowledged before");
        }
        backend.store.close().await;
        // A restore never overwrites anything.
        let error = restore(&settings, &saved).await.unwrap_err().to_string();
        assert!(error.contains("already"), "{error}");
        remove(&settings).await;
        app.end().await;
    }
}

/// Rows of every kind that a test can make quickly, with gaps where something was deleted.
async fn filled() -> TestApp {
    let app = TestApp::public(SignUps::Open).await;
    let store = app.backend.store.as_ref();
    let root = administrator(&app).await;
    let (ada, bob) = (Visitor::signed_up(&app, "ada").await, Visitor::signed_up(&app, "bob").await);
    assert!(root.get("/api/v1/account").await.status.is_success());
    issue(&ada, r#"["upload"]"#).await;
    let kept = send(&ada, &dataset(h200(), &[mm(512, 512, 512), mm(1024, 512, 512)], 4.0)).await.id;
    let gone = send(&bob, &dataset(h200(), &[mm(2048, 512, 512)], 4.0)).await.id;
    let remove = [("act", "remove"), ("upload", gone.as_str()), ("reason", "made up"), ("sure", "yes")];
    assert_eq!(root.submit("/admin/uploads", &remove).await.status, 200);
    let bytes = std::fs::read(MODEL).unwrap();
    let model = summary(&bytes);
    app.backend.blobs.put(BlobKind::Model, &model.digest, bytes.into()).await.unwrap();
    store.add_shipped_model(&model, &h200(), &[kept], Some(b"unseen"), Now::read()).await.unwrap();
    root.post("/api/v1/jobs", r#"{"kind":"train","heuristic":"matmul","hardware":"nvidia-h200"}"#).await;
    settle(store).await;
    app
}

/// The state of a server, from every list.
async fn state(app: &TestApp) -> Vec<String> {
    let mut state = Vec::new();
    for path in [
        "/hardware",
        "/hardware/nvidia-h200/leaderboard",
        "/uploads",
        "/models",
        "/jobs",
        "/activity",
        "/datasets/nvidia-h200.json",
        "/hardware/nvidia-h200/publications",
    ] {
        let reply = app.get(&format!("/api/v1{path}")).await;
        assert_eq!(reply.status, 200, "{path}");
        state.push(String::from_utf8(reply.body).unwrap());
    }
    state.push(format!("{:?}", app.log().await));
    state
}

#[tokio::test]
async fn a_server_moves_from_sqlite_to_postgres() {
    let app = filled().await;
    let to = postgres::create("moved").await;
    let (code, _, said) = app.admin(&["to-postgres", &to]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("2 entries recomputed, 0 differ") && said.contains("copied "), "{said}");
    let moved = app.on(Data { database_url: to.clone(), ..app.data.clone() }).await;
    assert_eq!(state(&moved).await, state(&app).await);
    // Who had an account has it, and new rows get new numbers.
    let ada = Visitor::signed_in(&moved, "ada", PASSWORD).await;
    send(&ada, &dataset(h200(), &[mm(4096, 512, 512)], 4.0)).await;
    settle(moved.backend.store.as_ref()).await;
    let root = Visitor::signed_in(&moved, "root", PASSWORD).await;
    root.post("/api/v1/jobs", r#"{"kind":"train","heuristic":"matmul","hardware":"nvidia-h200","seed":1}"#)
        .await;
    assert_eq!(moved.fetch::<Vec<Job>>("/api/v1/jobs").await.len(), 2);

    let (code, _, said) = app.admin(&["to-postgres", &to]);
    assert!(code == Some(1) && said.contains("tables already"), "{said}");
    let (code, _, said) = app.admin(&["to-postgres", "sqlite:other.db"]);
    assert!(code == Some(1) && said.contains("expected postgres://"), "{said}");
    let server = Server::started(
        Server::command_on(app.folder.path(), &app.data.database_url)
            .args(["--blobs", "blobs"])
            .spawn()
            .unwrap(),
    );
    let (code, _, said) = app.admin(&["to-postgres", &to]);
    assert!(code == Some(1) && said.contains("stop it first"), "{said}");
    server.kill();
    moved.end().await;
}

#[tokio::test]
async fn a_backup_of_sqlite_is_restored_to_postgres() {
    let app = filled().await;
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("backup");
    make(&app.backend, &app.data.database_url, &saved).await.unwrap();
    let database_url = postgres::create("restored_elsewhere").await;
    let settings = Data { database_url, blobs: folder.path().join("restored"), ..app.data.clone() };
    let restored = restore(&settings, &saved).await.unwrap();
    assert!(restored.verified.is_clean() && restored.verified.entries == 2, "{restored}");
    let other = app.on(settings).await;
    assert_eq!(state(&other).await, state(&app).await);
    other.end().await;
}

#[tokio::test]
async fn damage_to_a_backup_is_found_before_anything_is_restored() {
    let app = TestApp::new().await;
    upload(&app, 64).await;
    upload(&app, 128).await;
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("backup");
    let made = make(&app.backend, &app.data.database_url, &saved).await.unwrap();
    let error = make(&app.backend, &app.data.database_url, &saved).await.unwrap_err();
    assert!(format!("{error:#}").contains("not empty"), "{error:#}");

    let blobs: Vec<_> = made.blobs.iter().map(|blob| blob.digest.as_str()).collect();
    write_atomically(&saved.join("blobs/uploads").join(blobs[0]), b"other bytes").unwrap();
    std::fs::remove_file(saved.join("blobs/uploads").join(blobs[1])).unwrap();
    write_atomically(&saved.join("database.sqlite"), b"no database").unwrap();
    let settings = elsewhere(&app, folder.path(), "").await;
    let error = restore(&settings, &saved).await.unwrap_err().to_string();
    let all = ["3 places", "database.sqlite", blobs[0], blobs[1], "is missing"];
    assert!(all.iter().all(|part| error.contains(part)), "{error}");
    assert!(!folder.path().join("restored").exists() && !folder.path().join("restored.db").exists());

    std::fs::remove_file(saved.join("manifest.json")).unwrap();
    let error = restore(&settings, &saved).await.unwrap_err().to_string();
    assert!(error.contains("no manifest.json"), "{error}");
}

#[tokio::test]
async fn a_blob_that_the_server_has_lost_is_named_and_the_rest_is_saved() {
    let app = TestApp::new().await;
    let lost = app.receipt(columnar(&dataset(h200(), &[mm(64, 512, 512)], 1.0))).await;
    upload(&app, 128).await;
    std::fs::remove_file(app.blobs().join("uploads").join(lost.digest.as_str())).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let made = make(&app.backend, &app.data.database_url, &folder.path().join("b")).await.unwrap();
    assert_eq!((made.lost.len(), made.blobs.len()), (1, 1));
    assert!(made.to_string().contains(lost.digest.as_str()), "{made}");
    // Whoever looks at the backup later is told, too.
    let (later, faults) = check(&folder.path().join("b")).await.unwrap();
    assert_eq!((later.is_complete(), &later, faults), (false, &made, Vec::new()));
    let settings = elsewhere(&app, folder.path(), "").await;
    let restored = restore(&settings, &folder.path().join("b")).await.unwrap();
    assert_eq!(restored.verified.missing.len(), 1, "{restored}");
}
