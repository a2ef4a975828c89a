//! Tests of datasets that no longer change.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use diode_api::{
    Job, JobKind, JobState, SnapshotDetail, SnapshotFile, SnapshotManifest, SnapshotName, SnapshotState,
    SnapshotSummary,
};
use diode_core::ids::Digest;
use diode_formats::{Format, content_digest, decode, encode};
use diode_server::accounts::SignUps;
use diode_server::admin::verify;
use diode_server::jobs::worker;

use crate::admin::tamper;
use crate::moderation::administrator;
use crate::samples::{collected, columnar, dataset, h200, mm, seven};
use crate::test_app::{Reply, TestApp};
use crate::trust::{send, settle, timed};
use crate::visitor::{PASSWORD, Visitor};

pub(crate) const ASK: &str = r#"{"hardware":"nvidia-h200","reason":"for the paper"}"#;

/// Waits until a job has ended.
pub(crate) async fn ended(app: &TestApp, job: &Job) -> Job {
    loop {
        let now: Job = app.fetch(&format!("/api/v1/jobs/{}", job.id)).await;
        if now.state.is_final() {
            return now;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Asks for a snapshot, waits until it is made, and returns it.
pub(crate) async fn frozen(app: &TestApp, root: &Visitor<'_>) -> SnapshotDetail {
    let reply = root.post("/api/v1/snapshots", ASK).await;
    assert_eq!(reply.status, 202, "{}", String::from_utf8_lossy(&reply.body));
    let job = ended(app, &reply.json()).await;
    assert_eq!((job.state, job.error), (JobState::Done, None));
    detail(app, &job.snapshot.unwrap()).await
}

async fn detail(app: &TestApp, name: &SnapshotName) -> SnapshotDetail {
    app.fetch(&format!("/api/v1/snapshots/{name}")).await
}

fn path(snapshot: &SnapshotDetail, file: &SnapshotFile) -> String {
    format!("/api/v1/snapshots/{}/files/{}", snapshot.summary.name, file.name)
}

fn of_format<'a>(snapshot: &'a SnapshotDetail, format: &str) -> &'a SnapshotFile {
    snapshot.files.iter().find(|file| file.format == format).unwrap()
}

/// The bytes of all files, as the server sends them.
async fn all_bytes(app: &TestApp, snapshot: &SnapshotDetail) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for file in &snapshot.files {
        let reply = app.get(&path(snapshot, file)).await;
        assert_eq!(reply.status, 200);
        assert_eq!((Digest::of(&reply.body), reply.body.len() as u64), (file.sha256.clone(), file.bytes));
        all.push(reply.body);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_holds_all_that_counts_in_every_format_and_stays_as_it_was() {
    for app in TestApp::on_both("snapshots").await {
        let root = administrator(&app).await;
        let working = tokio::spawn(worker::run(app.backend.clone(), app.stopping()));
        root.post("/api/v1/snapshots", ASK).await.refusal(422, "refused");
        let sent = app.receipt(columnar(&seven())).await;
        let first = frozen(&app, &root).await;
        let summary = &first.summary;
        assert_eq!(summary.name.to_string(), "nvidia-h200@1");
        assert_eq!((summary.problems, summary.uploads, summary.contributors), (7, 1, 1));
        for format in Format::ALL {
            let file = of_format(&first, format.as_str());
            assert_eq!(file.name, format!("nvidia-h200@1{}", format.ending()));
            let bytes = app.get(&path(&first, file)).await.body;
            // The command line writes the same bytes.
            assert_eq!(bytes, encode(format, &[seven()]).unwrap(), "{format}");
        }
        let columnar_file = app.get(&path(&first, of_format(&first, "columnar"))).await;
        assert_eq!(columnar_file.header("content-type"), "application/zstd");
        let decoded = decode(&columnar_file.body).unwrap();
        assert_eq!(content_digest(&decoded.datasets), content_digest(&[seven()]));

        let manifest = app.get("/api/v1/snapshots/nvidia-h200@1/files/manifest.json").await;
        assert_eq!(Digest::of(&manifest.body), summary.digest);
        let manifest: SnapshotManifest = manifest.json();
        assert_eq!((manifest.hardware.slug, manifest.problems), (h200().slug, 7));
        assert_eq!((manifest.timings, manifest.failures), (summary.timings, summary.failures));
        assert_eq!((manifest.uploads.len(), &manifest.uploads[0].digest), (1, &sent.digest));
        assert_eq!((manifest.files.len(), manifest.absent.len()), (5, 0));
        let sums = app.get("/api/v1/snapshots/nvidia-h200@1/files/SHA256SUMS").await;
        let sums = String::from_utf8(sums.body).unwrap();
        assert_eq!(sums.lines().count(), 6);
        assert!(sums.contains(&format!("{}  manifest.json\n", summary.digest)), "{sums}");
        let before = all_bytes(&app, &first).await;
        assert_eq!(before.iter().map(Vec::len).sum::<usize>() as u64, summary.bytes);

        // Without new data, asking again gives the same snapshot. With new data it gives another one, and the
        // first stays.
        assert_eq!(frozen(&app, &root).await.summary, *summary);
        app.receipt(columnar(&dataset(h200(), &[mm(64, 512, 512)], 1.0))).await;
        let second = frozen(&app, &root).await;
        assert_eq!((second.summary.name.version, second.summary.problems), (2, 8));
        assert_eq!(all_bytes(&app, &detail(&app, &summary.name).await).await, before);
        let listed: Vec<SnapshotSummary> = app.fetch("/api/v1/snapshots?hardware=nvidia-h200").await;
        assert_eq!(listed, [second.summary.clone(), summary.clone()]);
        assert_eq!(app.fetch::<Vec<SnapshotSummary>>("/api/v1/snapshots?hardware=nvidia-z1").await, []);

        assert!(first.citation.text.contains(summary.digest.as_str()));
        assert!(first.citation.bibtex.starts_with("@misc{diode:nvidia-h200:1,"));
        assert_eq!(first.citation.url, "http://127.0.0.1:8080/api/v1/snapshots/nvidia-h200@1");

        let log = app.log().await;
        assert_eq!((log[0].what.as_str(), log[0].why.as_str()), ("snapshot of nvidia-h200", "for the paper"));
        assert!(verify(&app.backend).await.unwrap().is_clean());
        app.stop();
        working.await.unwrap();
        app.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_sent_in_parts_and_not_at_all_where_the_client_has_them() {
    let app = TestApp::with_seven().await;
    let root = administrator(&app).await;
    let working = tokio::spawn(worker::run(app.backend.clone(), app.stopping()));
    let snapshot = frozen(&app, &root).await;
    // The media type of one of these files is compressed in other answers of the server.
    for format in ["torch-diode-json", "columnar"] {
        let file = of_format(&snapshot, format);
        let path = path(&snapshot, file);
        let whole = app.get_with(&path, &[("accept-encoding", "gzip, br, zstd")]).await;
        assert_eq!((whole.header("content-encoding"), whole.header("accept-ranges")), ("", "bytes"));
        assert_eq!(whole.header("content-length"), file.bytes.to_string());
        let tag = format!("\"{}\"", file.sha256);
        assert_eq!(whole.header("etag"), tag);
        let part = async |range: &str, more: &[(&str, &str)]| -> Reply {
            app.get_with(&path, &[&[("range", range), ("accept-encoding", "gzip")], more].concat()).await
        };
        let total = file.bytes;
        for (range, expected) in [
            ("bytes=0-9".to_owned(), 0..10),
            (format!("bytes={}-", total - 7), total - 7..total),
            ("bytes=-5".to_owned(), total - 5..total),
            (format!("bytes=3-{}", total + 9), 3..total),
        ] {
            let reply = part(&range, &[("if-range", &tag)]).await;
            assert_eq!(reply.status, 206, "{range}");
            let (start, end) = (expected.start, expected.end);
            assert_eq!(reply.header("content-range"), format!("bytes {start}-{}/{total}", end - 1));
            assert_eq!(reply.header("content-length"), (end - start).to_string());
            assert_eq!((reply.header("etag"), reply.header("content-encoding")), (tag.as_str(), ""));
            assert_eq!(reply.body, whole.body[start as usize..end as usize]);
        }
        let beyond = part(&format!("bytes={total}-"), &[]).await;
        assert_eq!(beyond.header("content-range"), format!("bytes */{total}"));
        beyond.refusal(416, "no_such_range");
        // If the client began another file, or asks for several ranges or another unit, it gets the whole file.
        for (range, condition) in
            [("bytes=0-9", "\"other\""), ("bytes=0-1,4-5", tag.as_str()), ("lines=0-1", tag.as_str())]
        {
            let reply = part(range, &[("if-range", condition)]).await;
            assert_eq!((reply.status.as_u16(), reply.body.len()), (200, whole.body.len()), "{range}");
        }
        // The client already has the file, which counts more than the range.
        let unchanged = part("bytes=0-9", &[("if-none-match", &tag)]).await;
        assert_eq!((unchanged.status.as_u16(), unchanged.body.len()), (304, 0));
        assert_eq!((whole.header("vary"), unchanged.header("vary")), ("", ""), "it is sent as it is stored");

        // Neither 304 nor HEAD reads the file, so it need not even exist.
        let stored = app.blobs().join("snapshots").join(file.sha256.as_str());
        let away = stored.with_extension("away");
        std::fs::rename(&stored, &away).unwrap();
        assert_eq!(app.get_with(&path, &[("if-none-match", &tag)]).await.status, 304);
        let head = Request::head(&path).header("range", "bytes=0-9").body(Body::empty()).unwrap();
        let head = app.send(head).await;
        assert_eq!((head.status.as_u16(), head.header("content-length")), (200, total.to_string().as_str()));
        assert_eq!(app.get(&path).await.status, 500);
        std::fs::rename(&away, &stored).unwrap();
    }
    app.get("/api/v1/snapshots/nvidia-h200@1/files/nvidia-h200@1.xml").await.refusal(404, "not_found");
    app.get("/api/v1/snapshots/nvidia-h200@1/files/..%2f..%2fdiode.db").await.refusal(404, "not_found");
    for unknown in ["nvidia-h200@2", "nvidia-h200@0", "nvidia-h200", "nvidia-h200@1%00"] {
        app.get(&format!("/api/v1/snapshots/{unknown}")).await.refusal(404, "not_found");
    }
    app.stop();
    working.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_agree_on_a_snapshot_that_one_of_them_has_removed() {
    for app in TestApp::on_both("removed_elsewhere").await {
        let root = administrator(&app).await;
        let working = tokio::spawn(worker::run(app.backend.clone(), app.stopping()));
        let sent = app.receipt(columnar(&seven())).await;
        let name = frozen(&app, &root).await.summary.name;
        let body =
            format!(r#"{{"action":"quarantine","subject":{{"upload":"{}"}},"reason":"tested"}}"#, sent.id);
        assert_eq!(root.post("/api/v1/moderation", &body).await.status, 200);
        let other = app.replica().await;
        assert_eq!(detail(&other, &name).await.summary.withdrawn_uploads, 1);
        remove(&root, &name).await.page(200);
        let (here, there) = (detail(&app, &name).await, detail(&other, &name).await);
        assert_eq!((here.summary.state, &here), (SnapshotState::Removed, &there));
        let listed: Vec<SnapshotSummary> = other.fetch("/api/v1/snapshots").await;
        assert_eq!(listed, [here.summary]);
        other.backend.store.close().await;
        app.stop();
        working.await.unwrap();
        app.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn quarantine_marks_a_snapshot_and_deletion_takes_its_files() {
    for app in TestApp::on_both("snapshot_uploads").await {
        let store = app.backend.store.as_ref();
        let root = administrator(&app).await;
        let working = tokio::spawn(worker::run(app.backend.clone(), app.stopping()));
        let (ada, bob) = (Visitor::signed_up(&app, "ada").await, Visitor::signed_up(&app, "bob").await);
        send(&ada, &timed(1.0)).await;
        let alone = frozen(&app, &root).await;
        let bad = send(&bob, &timed(0.6)).await;
        settle(store).await;
        let both = frozen(&app, &root).await;
        assert_eq!((both.summary.uploads, both.summary.contributors), (2, 2));
        let before = all_bytes(&app, &both).await;

        let act = |action: &str| {
            format!(r#"{{"action":"{action}","subject":{{"upload":"{}"}},"reason":"tested"}}"#, bad.id)
        };
        assert_eq!(root.post("/api/v1/moderation", &act("quarantine")).await.status, 200);
        let marked = detail(&app, &both.summary.name).await;
        assert_eq!((marked.summary.withdrawn_uploads, marked.summary.state), (1, SnapshotState::Whole));
        assert_eq!(all_bytes(&app, &marked).await, before);
        assert_eq!(detail(&app, &alone.summary.name).await, alone);
        // A new snapshot has no quarantined data.
        let third = frozen(&app, &root).await;
        assert_eq!((third.summary.name.version, third.summary.uploads), (3, 1));

        assert_eq!(root.post("/api/v1/moderation", &act("delete")).await.status, 200);
        let gone = detail(&app, &both.summary.name).await;
        assert_eq!((gone.summary.state, gone.files.len()), (SnapshotState::Removed, 0));
        assert_eq!(gone.summary.reason, "an upload in it was deleted");
        assert_eq!(gone.summary.digest, both.summary.digest, "a citation can still be understood");
        for file in &both.files {
            app.get(&path(&both, file)).await.refusal(410, "removed");
        }
        let stays = |file: &&SnapshotFile| app.blobs().join("snapshots").join(file.sha256.as_str()).exists();
        assert_eq!(both.files.iter().filter(stays).count(), 0);
        // The first snapshot has the same data as the third, and shares some files with it.
        assert_eq!(all_bytes(&app, &alone).await.len(), alone.files.len());
        assert_eq!(all_bytes(&app, &third).await.len(), third.files.len());

        // Deleting the account removes its data, too.
        assert_eq!(ada.delete_account(PASSWORD, "delete").await.status, 303);
        let all: Vec<SnapshotSummary> = app.fetch("/api/v1/snapshots").await;
        assert!(all.len() == 3 && all.iter().all(|one| one.state == SnapshotState::Removed), "{all:?}");
        assert_eq!(app.blobs().join("snapshots").read_dir().unwrap().count(), 0);
        assert!(verify(&app.backend).await.unwrap().is_clean());
        app.stop();
        working.await.unwrap();
        app.end().await;
    }
}

#[tokio::test]
async fn uploads_of_snapshots_are_counted_only_when_some_have_changed() {
    let app = TestApp::with_seven().await;
    let root = administrator(&app).await;
    let working = tokio::spawn(worker::run(app.backend.clone(), app.stopping()));
    frozen(&app, &root).await;
    let withdrawn = async || {
        let listed: Vec<SnapshotSummary> = app.fetch("/api/v1/snapshots").await;
        listed[0].withdrawn_uploads
    };
    assert_eq!(withdrawn().await, 0);
    // The rows are changed directly in the database. The server does not read the uploads as long as the number
    // of losses stays the same.
    tamper(&app, "UPDATE uploads SET standing = 2").await;
    assert_eq!(withdrawn().await, 0);
    tamper(&app, "UPDATE hardware SET losses = losses + 1").await;
    assert_eq!(withdrawn().await, 1);
    app.stop();
    working.await.unwrap();
}

async fn remove(visitor: &Visitor<'_>, name: &SnapshotName) -> Reply {
    visitor.act("remove-snapshot", &[("name", &name.to_string()), ("reason", "tested")]).await
}

#[tokio::test]
async fn only_administrators_make_and_remove_snapshots() {
    let app = TestApp::public(SignUps::Open).await;
    let root = administrator(&app).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    send(&ada, &seven()).await;
    Visitor::new(&app).post("/api/v1/snapshots", ASK).await.refusal(401, "unauthorized");
    ada.post("/api/v1/snapshots", ASK).await.refusal(403, "forbidden");
    // The job cannot be asked for directly either.
    let job = r#"{"kind":"snapshot","heuristic":"matmul","hardware":"nvidia-h200"}"#;
    let message = root.post("/api/v1/jobs", job).await.refusal(422, "refused");
    assert!(message.contains("POST /api/v1/snapshots"), "{message}");
    root.post("/api/v1/snapshots", r#"{"hardware":"nvidia-h200"}"#).await.refusal(400, "invalid");

    let working = tokio::spawn(worker::run(app.backend.clone(), app.stopping()));
    let made = frozen(&app, &root).await;
    assert!(made.citation.url.starts_with("https://diode.example.org/api/v1/snapshots/"));
    let path = format!("/api/v1/snapshots/{}", made.summary.name);
    assert_eq!(remove(&ada, &made.summary.name).await.status, 403);
    remove(&root, &made.summary.name).await.page(200);
    let gone: SnapshotDetail = app.fetch(&path).await;
    assert_eq!((gone.summary.state, gone.summary.reason.as_str()), (SnapshotState::Removed, "tested"));
    remove(&root, &made.summary.name).await.page(404);
    // No other snapshot gets its version.
    assert_eq!(frozen(&app, &root).await.summary.name.version, 2);
    let log = app.log().await;
    assert_eq!(log[1].what, "remove snapshot nvidia-h200@1");
    app.stop();
    working.await.unwrap();
}

#[tokio::test]
async fn what_a_format_cannot_hold_is_absent_and_the_manifest_says_why() {
    let app = TestApp::new().await;
    let root = administrator(&app).await;
    app.receipt(columnar(&collected())).await;
    let working = tokio::spawn(worker::run(app.backend.clone(), app.stopping()));
    let made = frozen(&app, &root).await;
    let manifest: SnapshotManifest =
        app.fetch(&format!("/api/v1/snapshots/{}/files/manifest.json", made.summary.name)).await;
    let absent: Vec<_> = manifest.absent.iter().map(|absent| absent.format.as_str()).collect();
    assert_eq!(absent, ["torch-diode-json", "torch-diode-msgpack"]);
    assert!(manifest.absent.iter().all(|absent| absent.reason.contains(".msgpack.zst")), "{manifest:?}");
    assert!(manifest.files.iter().any(|file| file.format == "columnar"));
    app.stop();
    working.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_published_model_was_trained_on_is_frozen() {
    let app = TestApp::new().await;
    let mut backend = app.backend.clone();
    backend.auto_snapshot = true;
    app.receipt(columnar(&dataset(h200(), &(1..9).map(|m| mm(256 * m, 256, 512)).collect::<Vec<_>>(), 1.0)))
        .await;
    let working = tokio::spawn(worker::run(backend, app.stopping()));
    let training = ended(&app, &app.train_h200().await).await;
    let freezing = loop {
        let jobs: Vec<Job> = app.fetch("/api/v1/jobs").await;
        if let Some(job) = jobs.into_iter().find(|job| job.request.kind == JobKind::Snapshot) {
            break ended(&app, &job).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(freezing.automatic);
    let made = detail(&app, &freezing.snapshot.unwrap()).await;
    assert_eq!(made.models, [training.model.unwrap()]);
    // The model is not listed for a snapshot of other data.
    app.receipt(columnar(&dataset(h200(), &[mm(64, 512, 512)], 1.0))).await;
    let root = administrator(&app).await;
    assert_eq!(frozen(&app, &root).await.models, []);
    app.stop();
    working.await.unwrap();
}
