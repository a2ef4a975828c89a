use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use diode_api::{HardwareSummary, Reason, Receipt, SetApartReason, UploadLicence};
use diode_core::hardware::Hardware;
use diode_core::ids::{Digest, UploadId};
use diode_core::{Config, Tflops, Tile, TimeColumn};
use diode_server::blobs::BlobKind;
use diode_server::store::Now;
use diode_server::uploads::ingest::{UploadFacts, prepare};

use crate::samples::{collected, columnar, dataset, h200, json, mm, seven};
use crate::test_app::TestApp;

#[tokio::test]
async fn the_same_bytes_again_change_nothing() {
    let app = TestApp::new().await;
    let bytes = columnar(&seven());
    let first = app.upload(bytes.clone()).await;
    assert_eq!(first.status, 201);
    let first: Receipt = first.json();
    assert_eq!(first.digest, Digest::of(&bytes));
    assert_eq!((first.new_solutions, first.duplicate_solutions, first.already_stored), (7, 0, false));
    assert_eq!((first.hardware[0].problems, first.hardware[0].timings), (7, 42));
    assert_eq!(first.format, "columnar");

    let again = app.upload(bytes).await;
    assert_eq!(again.status, 200);
    let again: Receipt = again.json();
    assert_eq!(again, Receipt { already_stored: true, ..first.clone() });
    let kept: Receipt = app.fetch(&format!("/api/v1/uploads/{}", first.id)).await;
    assert_eq!(kept, again);
    assert!(app.blobs().join("uploads").join(first.digest.as_str()).is_file());
}

/// Runs only on Postgres, where other transactions go on while one holds a file. On SQLite they wait for the
/// database anyway.
#[tokio::test]
async fn a_file_that_is_removed_while_its_upload_is_added_is_stored_anew() {
    let [_, app] = TestApp::on_both("held_uploads").await;
    let (bytes, blobs) = (columnar(&seven()), &app.backend.blobs);
    let digest = Digest::of(&bytes);
    let held = app.backend.store.hold_file(BlobKind::Upload, &digest).await.unwrap();
    let removing = async {
        while blobs.size(BlobKind::Upload, &digest).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Time enough to add the upload, if nothing prevented it.
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(app.backend.store.receipt(&UploadId::of_digest(&digest)).await.unwrap(), None);
        blobs.remove(BlobKind::Upload, &digest).await.unwrap();
        drop(held);
    };
    let (reply, ()) = tokio::join!(app.upload(bytes), removing);
    assert_eq!(reply.status, 201);
    assert_eq!(reply.json::<Receipt>().digest, digest);
    assert!(blobs.size(BlobKind::Upload, &digest).await.unwrap().is_some());
    app.end().await;
}

#[tokio::test]
async fn another_format_of_the_same_data_moves_no_leaderboard() {
    let app = TestApp::new().await;
    let data = seven();
    app.receipt(columnar(&data)).await;
    let before = app.get("/api/v1/hardware/nvidia-h200/leaderboard").await.body;
    let receipt = app.receipt(json(&data)).await;
    assert_eq!(receipt.format, "torch-diode-json");
    assert_eq!((receipt.new_solutions, receipt.duplicate_solutions), (0, 7));
    assert_eq!(app.get("/api/v1/hardware/nvidia-h200/leaderboard").await.body, before);
}

#[tokio::test]
async fn truncated_uploads_are_refused_and_leave_nothing() {
    let app = TestApp::new().await;
    for bytes in [columnar(&seven()), json(&seven())] {
        for keep in [0, 1, bytes.len() / 3, bytes.len() - 1] {
            let message = app.upload(bytes[..keep].to_vec()).await.refusal(400, "invalid");
            assert!(!message.is_empty());
        }
    }
    let hardware: Vec<HardwareSummary> = app.fetch("/api/v1/hardware").await;
    assert_eq!(hardware, []);
    assert!(!app.blobs().join("uploads").exists());
}

#[tokio::test]
async fn impossible_times_are_set_apart_and_the_rest_is_stored() {
    for app in TestApp::on_both("set_apart").await {
        let mut data = seven();
        data.solutions.extend(dataset(h200(), &[mm(8192, 8192, 8192)], 0.5).solutions);
        // The upload has an impossible time in a solution with other times, and a kernel that needs more shared
        // memory than there is.
        let mut times: Vec<u64> = data.solutions[3].times.iter_nanos().map(|time| time.0 as u64).collect();
        times[2] = 1_000;
        times.push(150_000);
        let infeasible = data.configs.intern(Config::Mm(Tile::new(128, 256, 64, 9, 8).for_k(4096)));
        data.solutions[3].configs.push(infeasible);
        data.solutions[3].times = TimeColumn::from_nanos(times).unwrap();
        let receipt = app.receipt(columnar(&data)).await;
        let [given] = &receipt.hardware[..] else { panic!("{receipt:?}") };
        assert_eq!((given.problems, given.timings, receipt.new_solutions), (7, 41, 7));
        assert!(given.confirmed && !given.facts_differ);
        let apart: Vec<_> = given.set_apart.iter().map(|apart| (apart.reason, apart.timings)).collect();
        assert_eq!(apart, [(SetApartReason::BelowFloor, 7), (SetApartReason::Infeasible, 1)]);
        assert!(given.set_apart[0].example.contains("4096×4096×4096"), "{given:?}");
        assert!(given.set_apart[1].example.contains("shared memory"), "{given:?}");
        let kept: Receipt = app.fetch(&format!("/api/v1/uploads/{}", receipt.id)).await;
        assert_eq!(kept.hardware, receipt.hardware);
        let hardware: HardwareSummary = app.fetch("/api/v1/hardware/nvidia-h200").await;
        assert_eq!((hardware.problems, hardware.timings), (7, 41));

        // A file without any acceptable timing is refused, and nothing of it is kept.
        let nothing = dataset(h200(), &[mm(8192, 8192, 8192)], 0.5);
        let message = app.upload(columnar(&nothing)).await.refusal(422, "refused");
        assert!(message.contains("8192×8192×8192 128×128×64 s3 w4"), "{message}");
        assert!(message.contains("at least"), "{message}");
        assert_eq!(app.fetch::<Vec<Receipt>>("/api/v1/uploads").await.len(), 1);
        app.end().await;
    }
}

#[test]
fn nothing_of_the_shipped_data_is_set_apart() {
    // One file of each kind, because they are large.
    for file in [
        "h200/data/h200-mm-bf16",
        "h200/data/h200-mm-fp32",
        "h100/data/h100-mm-tf32",
        "h100/data/h100-bmm-fp16",
    ] {
        let path = format!("../trained_models/matmul/nvidia-{file}.msgpack.zst");
        let bytes = std::fs::read(&path).unwrap();
        let source = UploadFacts {
            id: UploadId::of(&bytes),
            digest: Digest::of(&bytes),
            bytes: bytes.len() as u64,
            received_at: "2026-11-20T10:00:00Z".to_owned(),
            account: None,
            vouched: true,
            licence: UploadLicence::stated(),
        };
        let upload = prepare(source, diode_formats::decode(&bytes).unwrap(), &BTreeMap::new()).unwrap();
        let apart: Vec<_> = upload.receipts.iter().flat_map(|given| &given.set_apart).collect();
        assert!(apart.is_empty(), "{path}: {apart:?}");
    }
}

/// Whoever states the facts of a GPU first may be wrong. So their facts do not limit others.
#[tokio::test]
async fn facts_count_once_an_administrator_confirms_them() {
    for app in TestApp::on_both("facts").await {
        let store = app.backend.store.as_ref();
        let slower = |by: f64| {
            let mut facts = h200().facts.unwrap();
            facts.peaks.fp16 = facts.peaks.fp16.map(|rate| Tflops(rate.0 / by));
            facts.dram_gbps /= by;
            facts
        };
        let unlisted = Hardware::from_name("NVIDIA Z9000").unwrap();
        let given = |facts, size| {
            let hardware = Hardware { facts: Some(facts), ..unlisted.clone() };
            columnar(&dataset(hardware, &[mm(size, 4096, 4096)], 1.0))
        };
        // A file's own times must be possible by the facts that it states.
        app.upload(given(slower(100.0), 1024)).await.refusal(422, "refused");
        app.receipt(given(slower(1.5), 1024)).await;
        let honest = app.receipt(given(h200().facts.unwrap(), 2048)).await;
        let [judged] = &honest.hardware[..] else { panic!("{honest:?}") };
        assert!(judged.set_apart.is_empty() && judged.facts_differ && !judged.confirmed, "{judged:?}");
        let path = "/api/v1/hardware/nvidia-z9000";
        let known: HardwareSummary = app.fetch(path).await;
        assert_eq!((known.confirmed, known.conflicting_uploads, known.solutions), (false, 1, 2));

        let why: Reason = "the data sheet".parse().unwrap();
        let facts = h200().facts;
        let (slug, now) = (&unlisted.slug, Now::read());
        assert!(store.confirm_hardware(slug, facts.as_ref(), &why, "root", now).await.unwrap());
        while store.refresh_entries().await.unwrap() > 0 {}
        let known: HardwareSummary = app.fetch(path).await;
        assert_eq!((known.confirmed, known.conflicting_uploads, known.hardware.facts), (true, 0, facts));
        assert!(known.median_roofline_share.unwrap() < 1.0);
        // From now on the confirmed facts limit times, whatever a file states.
        let mut fast = h200().facts.unwrap();
        fast.peaks.fp16 = fast.peaks.fp16.map(|rate| Tflops(rate.0 * 100.0));
        let forged = Hardware { facts: Some(fast), ..unlisted.clone() };
        let forged = columnar(&dataset(forged, &[mm(8192, 8192, 8192)], 0.5));
        app.upload(forged).await.refusal(422, "refused");
        let log = store.moderation_log(10).await.unwrap();
        assert_eq!((log[0].what.as_str(), log[0].who.as_str()), ("confirm hardware nvidia-z9000", "root"));
        let nobody = "nvidia-z1".parse().unwrap();
        assert!(!store.confirm_hardware(&nobody, None, &why, "root", now).await.unwrap());
        app.end().await;
    }
}

#[tokio::test]
async fn identical_uploads_at_the_same_time_both_succeed() {
    let app = TestApp::new().await;
    let bytes = columnar(&seven());
    let (a, b, c) =
        tokio::join!(app.upload(bytes.clone()), app.upload(bytes.clone()), app.upload(bytes.clone()));
    let mut statuses = [a.status.as_u16(), b.status.as_u16(), c.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 201]);
    let hardware: HardwareSummary = app.fetch("/api/v1/hardware/nvidia-h200").await;
    assert_eq!((hardware.problems, hardware.solutions, hardware.timings), (7, 7, 42));
}

#[tokio::test]
async fn methods_are_kept_apart() {
    let app = TestApp::with_seven().await;
    app.receipt(columnar(&collected())).await;
    let hardware: HardwareSummary = app.fetch("/api/v1/hardware/nvidia-h200").await;
    assert_eq!((hardware.problems, hardware.solutions, hardware.methods.len()), (7, 8, 2));
}

#[tokio::test]
async fn too_long_and_wrapped_bodies_are_refused() {
    let app = TestApp::new().await;
    let post = |name: &str, value: &str| {
        Request::post("/api/v1/uploads").header(name, value).body(Body::from("x")).unwrap()
    };
    let message = app.send(post("content-length", "99999999999")).await.refusal(413, "too_large");
    assert!(message.contains("64 MiB"), "{message}");
    let long = axum::body::Bytes::from(vec![b' '; 1 << 20]);
    let endless = futures_util::stream::iter((0..100).map(move |_| Ok::<_, std::io::Error>(long.clone())));
    let request = Request::post("/api/v1/uploads").body(Body::from_stream(endless)).unwrap();
    app.send(request).await.refusal(413, "too_large");
    app.send(post("content-type", "multipart/form-data; boundary=x"))
        .await
        .refusal(415, "unsupported_media_type");
    app.send(post("content-encoding", "gzip")).await.refusal(415, "unsupported_media_type");
}

#[tokio::test]
async fn unknown_receipts_are_not_found() {
    let app = TestApp::new().await;
    for id in ["0123456789abcdef", "nonsense"] {
        let message = app.get(&format!("/api/v1/uploads/{id}")).await.refusal(404, "not_found");
        assert!(message.contains(id), "{message}");
    }
}

#[tokio::test]
async fn slow_senders_keep_nobody_waiting() {
    let app = TestApp::new().await;
    let mut slow = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let silence = futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>();
        let request = Request::post("/api/v1/uploads").body(Body::from_stream(silence)).unwrap();
        slow.spawn(app.sending(request));
    }
    tokio::task::yield_now().await;
    let upload = tokio::time::timeout(Duration::from_secs(9), app.upload(columnar(&seven())));
    assert_eq!(upload.await.expect("waits for slow senders").status, 201);
}
