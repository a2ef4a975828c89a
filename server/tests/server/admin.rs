use diode_server::admin::{Seeded, seed, verify};

use crate::samples::{collected, columnar, json, seven};
use crate::test_app::TestApp;

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
    let error = seed(&app.backend, app.settings.blobs.as_path()).await.unwrap_err().to_string();
    assert!(error.contains("expected"), "{error}");
}

#[tokio::test]
async fn verification_finds_what_was_tampered_with() {
    let app = TestApp::with_seven().await;
    app.receipt(columnar(&collected())).await;
    let clean = verify(app.backend.store.as_ref()).await.unwrap();
    assert_eq!((clean.entries, clean.differences.len()), (8, 0), "{clean}");

    let options = app.settings.database_url.parse::<sqlx::sqlite::SqliteConnectOptions>().unwrap();
    let raw = sqlx::SqlitePool::connect_with(options).await.unwrap();
    sqlx::query("UPDATE entries SET best_ns = best_ns / 2 WHERE method <> 'unspecified'")
        .execute(&raw)
        .await
        .unwrap();
    let tampered = verify(app.backend.store.as_ref()).await.unwrap();
    assert_eq!(tampered.differences.len(), 1);
    assert!(tampered.to_string().contains("median-cold-event"), "{tampered}");
}
