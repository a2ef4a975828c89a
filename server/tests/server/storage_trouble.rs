//! Tests of S3-compatible storage that is away, silent, full or refuses access.

use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::http::Request;
use diode_api::Receipt;
use diode_core::ids::Digest;
use diode_server::admin::{sweep, verify};
use diode_server::blobs::{BlobKind, Blobs};
use diode_server::blobs::{BlobPlace, Bucket, Keys};
use diode_server::store::Now;

use crate::samples::{columnar, dataset, h200, mm};
use crate::storage::{KEY, Mood, SECRET, Storage};
use crate::test_app::TestApp;

fn file(m: u64) -> Vec<u8> {
    columnar(&dataset(h200(), &[mm(m, 512, 512)], 1.0))
}

/// Checks what a server does while its storage does not work, and that the server recovers when the storage
/// works again.
async fn refuses(app: &TestApp, m: u64, status: u16, code: &str, patience: Duration) {
    let began = Instant::now();
    app.upload(file(m)).await.refusal(status, code);
    assert!(began.elapsed() < patience, "{:?}", began.elapsed());
    app.get("/readyz").await.refusal(status, code);
    assert_eq!(app.get("/healthz").await.status, 200);
    assert_eq!(app.get("/api/v1/hardware/nvidia-h200/leaderboard").await.status, 200);
}

async fn is_well(app: &TestApp, m: u64, uploads: usize) {
    // After a silence the server waits before it asks the storage again.
    let began = Instant::now();
    while app.get("/readyz").await.status != 200 {
        assert!(began.elapsed() < Duration::from_secs(30), "the server does not notice");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(app.upload(file(m)).await.status, 201);
    assert_eq!(app.fetch::<Vec<Receipt>>("/api/v1/uploads").await.len(), uploads);
    let verified = verify(&app.backend).await.unwrap();
    assert!(verified.is_clean() && verified.orphans == 0, "{verified}");
}

#[tokio::test]
async fn storage_that_is_away_is_told_and_missed_no_longer_than_it_is_away() {
    let mut app = TestApp::in_bucket(None).await;
    let mut storage = app.storage.take().unwrap();
    assert_eq!(app.upload(file(64)).await.status, 201);
    storage.stop().await;
    refuses(&app, 128, 503, "unavailable", Duration::from_secs(20)).await;
    assert!(sweep(&app.backend, false, Now::read()).await.is_err());
    storage.start_again().await;
    is_well(&app, 128, 2).await;

    storage.set(Mood::NoBucket);
    refuses(&app, 192, 503, "unavailable", Duration::from_secs(20)).await;
    storage.set(Mood::Well);
    is_well(&app, 192, 3).await;
}

#[tokio::test]
async fn silent_storage_keeps_nobody_waiting_for_those_who_wait() {
    let mut app = TestApp::in_bucket(None).await;
    let storage = app.storage.take().unwrap();
    assert_eq!(app.upload(file(64)).await.status, 201);
    storage.set(Mood::Silent);
    let began = Instant::now();
    let mut waiting = tokio::task::JoinSet::new();
    for m in 2..12 {
        waiting.spawn(app.sending(Request::post("/api/v1/uploads").body(file(64 * m).into()).unwrap()));
    }
    while let Some(reply) = waiting.join_next().await {
        reply.unwrap().refusal(503, "unavailable");
    }
    assert!(began.elapsed() < Duration::from_secs(45), "{:?}", began.elapsed());
    refuses(&app, 128, 503, "unavailable", Duration::from_secs(45)).await;
    storage.set(Mood::Well);
    is_well(&app, 128, 2).await;
}

#[tokio::test]
async fn storage_that_goes_in_the_middle_leaves_nothing_by_halves() {
    let mut app = TestApp::in_bucket(None).await;
    let mut storage = app.storage.take().unwrap();
    storage.set(Mood::Silent);
    let uploading = app.sending(Request::post("/api/v1/uploads").body(file(64).into()).unwrap());
    let going = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        storage.stop().await;
    };
    let (reply, ()) = tokio::join!(uploading, going);
    reply.refusal(503, "unavailable");
    assert_eq!(app.fetch::<Vec<Receipt>>("/api/v1/uploads").await, []);
    assert!(!storage.files("diode").join("uploads").exists());
    storage.set(Mood::Well);
    storage.start_again().await;
    is_well(&app, 64, 1).await;
}

#[tokio::test]
async fn full_storage_is_told_as_a_full_disk_is() {
    let app = TestApp::in_bucket(None).await;
    let storage = app.storage.as_ref().unwrap();
    assert_eq!(app.upload(file(64)).await.status, 201);
    for mood in [Mood::Full, Mood::DiskFull] {
        storage.set(mood);
        refuses(&app, 128, 507, "insufficient_storage", Duration::from_secs(20)).await;
    }
    storage.set(Mood::Well);
    is_well(&app, 128, 2).await;
}

#[tokio::test]
async fn large_files_go_in_parts_that_are_given_up_together() {
    let storage = Storage::start().await;
    let blobs = Blobs::open(&BlobPlace::Bucket(storage.bucket("large"))).await.unwrap();
    let bytes: Bytes = (0..(11 << 20) + 7).map(|i: u32| (i % 251) as u8).collect();
    let digest = Digest::of(&bytes);
    blobs.put(BlobKind::Pack, &digest, bytes.clone()).await.unwrap();
    assert_eq!(blobs.get(BlobKind::Pack, &digest).await.unwrap(), bytes);
    assert_eq!(blobs.size(BlobKind::Pack, &digest).await.unwrap(), Some(bytes.len() as u64));
    assert_eq!(storage.parts(), 0);

    storage.set(Mood::OnePart);
    let other = bytes.slice(1..);
    let error = blobs.put(BlobKind::Pack, &Digest::of(&other), other.clone()).await.unwrap_err().to_string();
    assert!(error.contains(Digest::of(&other).as_str()), "{error}");
    assert_eq!(blobs.size(BlobKind::Pack, &Digest::of(&other)).await.unwrap(), None);
    assert_eq!(storage.parts(), 0, "what arrived of it is given up");
}

/// Waits until a condition on the storage is true.
async fn until(storage: &Storage, holds: impl Fn(&Storage) -> bool) {
    let began = Instant::now();
    while !holds(storage) {
        assert!(began.elapsed() < Duration::from_secs(30), "{} parts", storage.parts());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn parts_of_a_file_that_nobody_waits_for_are_given_up() {
    let storage = Storage::start().await;
    let blobs = Blobs::open(&BlobPlace::Bucket(storage.bucket("large"))).await.unwrap();
    let bytes: Bytes = (0..11 << 20).map(|i: u32| (i % 251) as u8).collect();
    let digest = Digest::of(&bytes);
    storage.set(Mood::OnePartThenSilent);
    {
        let mut storing = std::pin::pin!(blobs.put(BlobKind::Upload, &digest, bytes.clone()));
        tokio::select! {
            stored = &mut storing => panic!("it was stored: {stored:?}"),
            // By then the first part is complete. A part that is still being written could appear after all
            // parts were given up.
            () = until(&storage, |storage| storage.unanswered_parts() > 0) => {}
        }
        assert!(storage.parts() > 0);
        // A server drops its work for a client that has gone.
    }
    until(&storage, |storage| storage.parts() == 0).await;
    storage.set(Mood::Well);
    assert_eq!(blobs.size(BlobKind::Upload, &digest).await.unwrap(), None);
    blobs.put(BlobKind::Upload, &digest, bytes).await.unwrap();
    assert_eq!(storage.parts(), 0);
}

#[tokio::test]
async fn however_many_ask_the_storage_is_asked_once() {
    let app = TestApp::in_bucket(None).await;
    let ask = async |app: &TestApp, number: usize| {
        let asking = (0..number).map(|_| app.get("/readyz"));
        let replies = futures_util::future::join_all(asking).await;
        replies.into_iter().map(|reply| reply.status.as_u16()).collect::<Vec<_>>()
    };
    // Here no result of a check is kept.
    assert_eq!(ask(&app, 3).await, [200; 3]);
    assert_eq!(app.storage.as_ref().unwrap().probes(), 3);
    let app = app.ready_for(Duration::from_secs(3600));
    assert_eq!(ask(&app, 20).await, [200; 20]);
    let storage = app.storage.as_ref().unwrap();
    assert_eq!(storage.probes(), 4);
    // Failures of the check are kept, too.
    storage.set(Mood::Full);
    assert_eq!(ask(&app, 2).await, [200; 2]);
    let app = app.ready_for(Duration::from_secs(3600));
    let asked = app.storage.as_ref().unwrap().probes();
    assert_eq!(ask(&app, 2).await, [507; 2]);
    assert_eq!(app.storage.as_ref().unwrap().probes(), asked + 1);
}

#[tokio::test]
async fn a_bucket_that_cannot_be_used_is_told_at_the_start() {
    let mut storage = Storage::start().await;
    let refusal = async |bucket: Bucket| match Blobs::open(&BlobPlace::Bucket(bucket)).await {
        Ok(_) => panic!("it was opened"),
        Err(error) => error.to_string(),
    };
    let secret = "another-secret-altogether";
    for keys in [Keys::new("nobody", secret), Keys::new(KEY, secret)] {
        let error = refusal(Bucket { keys, ..storage.bucket("") }).await;
        assert!(error.contains("s3://timings") && error.contains("AWS_SECRET_ACCESS_KEY"), "{error}");
        assert!(!error.contains(secret), "{error}");
    }
    let error = refusal(Bucket { name: "elsewhere".to_owned(), ..storage.bucket("") }).await;
    assert!(error.contains("create the bucket"), "{error}");
    storage.stop().await;
    let error = refusal(storage.bucket("")).await;
    assert!(error.contains("check that the storage runs") && !error.contains(SECRET), "{error}");
}

#[tokio::test]
async fn storage_behind_tls_is_trusted_by_its_certificate_alone() {
    let storage = Storage::start_with_tls().await;
    let bucket = storage.bucket("secure");
    let blobs = Blobs::open(&BlobPlace::Bucket(bucket.clone())).await.unwrap();
    let bytes = Bytes::from_static(b"sent through TLS");
    let digest = Digest::of(&bytes);
    blobs.put(BlobKind::Model, &digest, bytes.clone()).await.unwrap();
    assert_eq!(blobs.get(BlobKind::Model, &digest).await.unwrap(), bytes);

    let open = async |ca| {
        let opened = Blobs::open(&BlobPlace::Bucket(Bucket { ca, ..bucket.clone() })).await;
        opened.map(drop).unwrap_err()
    };
    let error = open(None).await.to_string();
    assert!(error.contains("certificate"), "{error}");
    let empty = storage.files("empty.pem");
    diode_formats::write_atomically(&empty, b"no certificate").unwrap();
    let error = open(Some(empty)).await.to_string();
    assert!(error.contains("empty.pem") && error.contains("BEGIN CERTIFICATE"), "{error}");
}
