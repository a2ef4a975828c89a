//! Tests of what administrators do with uploads, and of what users report.

use diode_api::{ModelSummary, Moderated, NewReport, Reason, Receipt, Standing};
use diode_server::accounts::{SignUps, first_account_link};
use diode_server::blobs::BlobKind;
use diode_server::store::Now;

use crate::models::summary;
use crate::picks::MODEL;
use crate::samples::{columnar, dataset, h200, json, mm};
use crate::test_app::TestApp;
use crate::trust::{seen, send, settle, timed};
use crate::visitor::Visitor;

pub(crate) async fn administrator(app: &TestApp) -> Visitor<'_> {
    let link = first_account_link(app.backend.store.as_ref(), &app.policy).await.unwrap();
    let visitor = Visitor::new(app);
    let secret = link.url.rsplit('=').next().unwrap();
    assert_eq!(visitor.sign_up("root", Some(secret)).await.status, 201);
    visitor
}

fn act(action: &str, subject: &str) -> String {
    format!(r#"{{"action":"{action}","subject":{subject},"reason":"tested"}}"#)
}

#[tokio::test]
async fn quarantine_cleans_every_view_and_restoring_brings_all_back() {
    for app in TestApp::on_both("quarantine").await {
        let store = app.backend.store.as_ref();
        let root = administrator(&app).await;
        let (ada, bob) = (Visitor::signed_up(&app, "ada").await, Visitor::signed_up(&app, "bob").await);
        let honest = send(&ada, &timed(1.0)).await;
        let without = seen(&app).await;
        let bad = send(&bob, &timed(0.6)).await;
        let more = send(&bob, &timed(0.7)).await;
        settle(store).await;
        let with = seen(&app).await;
        assert!(with.iter().zip(&without).all(|(with, without)| with != without));
        let learnt = store.training_data(&h200().slug).await.unwrap().solutions;
        let learnt = learnt.iter().map(|solution| solution.number).collect();
        let used = store.uploads_of_solutions(&learnt).await.unwrap();
        assert_eq!(used.len(), 3);
        let model = summary(b"trained");
        store.add_shipped_model(&model, &h200(), &used, None, Now::read()).await.unwrap();
        let tag = app.get("/api/v1/datasets/nvidia-h200.json").await.header("etag").to_owned();

        let quarantine = act("quarantine", r#"{"account":"bob"}"#);
        let done: Moderated = root.post("/api/v1/moderation", &quarantine).await.json();
        let mut uploads = vec![bad.id.clone(), more.id.clone()];
        uploads.sort();
        assert_eq!(done.uploads, uploads);
        settle(store).await;
        assert_eq!(seen(&app).await, without);
        let fresh = app.get_with("/api/v1/datasets/nvidia-h200.json", &[("if-none-match", &tag)]).await;
        assert_eq!(fresh.status, 200, "it is not what the client has");
        let receipt: Receipt = app.fetch(&format!("/api/v1/uploads/{}", bad.id)).await;
        assert_eq!((receipt.standing, receipt.reason.as_deref()), (Standing::Quarantined, Some("tested")));
        let listed: Vec<Receipt> = app.fetch("/api/v1/uploads?standing=quarantined&contributor=bob").await;
        assert_eq!(listed.len(), 2);
        let marked: ModelSummary = app.fetch(&format!("/api/v1/models/{}", model.id)).await;
        assert_eq!(marked.withdrawn_uploads, 2);
        // Sending the same file again has no effect.
        bob.post_bytes("/api/v1/uploads", columnar(&timed(0.6))).await;
        assert_eq!(seen(&app).await, without);

        for subject in [&bad.id, &more.id] {
            let restore = act("restore", &format!(r#"{{"upload":"{subject}"}}"#));
            assert_eq!(root.post("/api/v1/moderation", &restore).await.status, 200);
        }
        settle(store).await;
        assert_eq!(seen(&app).await, with);
        let marked: Vec<ModelSummary> = app.fetch("/api/v1/models").await;
        assert_eq!(marked[0].withdrawn_uploads, 0);

        let delete = act("delete", r#"{"account":"bob"}"#);
        assert_eq!(root.post("/api/v1/moderation", &delete).await.status, 200);
        settle(store).await;
        assert_eq!(seen(&app).await, without);
        let file = |receipt: &Receipt| app.blobs().join("uploads").join(receipt.digest.as_str());
        assert!(!file(&bad).exists() && !file(&more).exists() && file(&honest).exists());
        app.get(&format!("/api/v1/uploads/{}", bad.id)).await.refusal(404, "not_found");
        let marked: ModelSummary = app.fetch(&format!("/api/v1/models/{}", model.id)).await;
        assert_eq!(marked.withdrawn_uploads, 2);

        let log = app.log().await;
        let said: Vec<_> = log.iter().map(|entry| entry.what.as_str()).collect();
        assert_eq!(said[0], "delete uploads of bob (2)");
        assert_eq!((said.len(), said[3]), (4, "quarantine uploads of bob (2)"));
        assert!(log.iter().all(|entry| (entry.who.as_str(), entry.why.as_str()) == ("root", "tested")));
        app.end().await;
    }
}

/// What [`seen`] leaves out: other forms of a dataset and a table, and results that are computed from them.
async fn seen_elsewhere(app: &TestApp) -> Vec<String> {
    let (known, new) = (mm(2048, 2048, 2048).id(), mm(8192, 1024, 1024).id());
    let slug = "/api/v1/hardware/nvidia-h200";
    let mut seen = Vec::new();
    for path in [
        "/api/v1/datasets/nvidia-h200.msgpack.zst".to_owned(),
        "/api/v1/tables/nvidia-h200.json?format=inductor".to_owned(),
        format!("{slug}/problems"),
        format!("{slug}/leaderboard?sort=time&order=asc&limit=2"),
        format!("{slug}/nearest?m=8192&n=1024&k=1024"),
        format!("{slug}/picks?method=unspecified&problems={known},{new}"),
        format!("{slug}/coverage"),
        format!("{slug}/coverage/map"),
        format!("{slug}/configs"),
        format!("{slug}/contributors"),
        "/api/v1/nearest?op=mm&m=8192&n=1024&k=1024&dtype=bfloat16".to_owned(),
        "/api/v1/comparisons/hardware?a=nvidia-h200&b=nvidia-h200".to_owned(),
        "/api/v1/activity".to_owned(),
        format!("/api/v1/problems/{new}"),
    ] {
        let reply = app.get(&path).await;
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        let text = if reply.status == 404 { String::new() } else { text };
        seen.push(format!("{path} {} {text}", reply.status));
    }
    // The field is removed, because it is the time of the newest upload that exists, even if that upload does
    // not count.
    let mut summary: serde_json::Value = app.fetch(slug).await;
    summary.as_object_mut().unwrap().remove("updated_at");
    seen.push(summary.to_string());
    seen
}

#[tokio::test]
async fn quarantine_reaches_what_is_worked_out_of_the_timings() {
    for app in TestApp::on_both("quarantine_elsewhere").await {
        let store = app.backend.store.as_ref();
        let root = administrator(&app).await;
        let (ada, bob) = (Visitor::signed_up(&app, "ada").await, Visitor::signed_up(&app, "bob").await);
        let bytes = std::fs::read(MODEL).unwrap();
        let model = summary(&bytes);
        app.backend.blobs.put(BlobKind::Model, &model.digest, bytes.into()).await.unwrap();
        send(&ada, &timed(1.0)).await;
        assert!(store.add_shipped_model(&model, &h200(), &[], None, Now::read()).await.unwrap());
        let without = seen_elsewhere(&app).await;
        let problems = [mm(2048, 2048, 2048), mm(8192, 1024, 1024)];
        send(&bob, &dataset(h200(), &problems, 4.0 * 0.6)).await;
        settle(store).await;
        let with = seen_elsewhere(&app).await;
        for (with, without) in with.iter().zip(&without) {
            assert_ne!(with, without);
        }
        for (action, expected) in [("quarantine", &without), ("restore", &with)] {
            let request = act(action, r#"{"account":"bob"}"#);
            assert_eq!(root.post("/api/v1/moderation", &request).await.status, 200);
            settle(store).await;
            for (now, expected) in seen_elsewhere(&app).await.iter().zip(expected) {
                assert_eq!(now, expected, "after {action}");
            }
        }
        app.end().await;
    }
}

#[tokio::test]
async fn a_lie_stays_fenced_when_it_is_restored() {
    for app in TestApp::on_both("restored").await {
        let store = app.backend.store.as_ref();
        let root = administrator(&app).await;
        for (name, factor) in [("ada", 1.0), ("bob", 1.01), ("cyd", 0.99)] {
            send(&Visitor::signed_up(&app, name).await, &timed(factor)).await;
        }
        let before = seen(&app).await;
        let eve = Visitor::signed_up(&app, "eve").await;
        let lie = send(&eve, &timed(0.5)).await;
        assert_eq!(lie.standing, Standing::Fenced);
        // A second file with the same times keeps the deviations unchanged while the first is quarantined.
        eve.post_bytes("/api/v1/uploads", json(&timed(0.5))).await;
        for (action, standing) in [("quarantine", Standing::Quarantined), ("restore", Standing::Fenced)] {
            let request = act(action, &format!(r#"{{"upload":"{}"}}"#, lie.id));
            assert_eq!(root.post("/api/v1/moderation", &request).await.status, 200);
            assert_eq!(store.receipt(&lie.id).await.unwrap().unwrap().standing, standing);
            assert_eq!(seen(&app).await, before);
            settle(store).await;
        }
        app.end().await;
    }
}

#[tokio::test]
async fn quarantined_timings_stay_so_in_another_file() {
    for app in TestApp::on_both("insisting").await {
        let store = app.backend.store.as_ref();
        let root = administrator(&app).await;
        let (ada, bob) = (Visitor::signed_up(&app, "ada").await, Visitor::signed_up(&app, "bob").await);
        send(&ada, &timed(1.0)).await;
        let without = seen(&app).await;
        let bad = send(&bob, &timed(0.6)).await;
        let quarantine = act("quarantine", &format!(r#"{{"upload":"{}"}}"#, bad.id));
        assert_eq!(root.post("/api/v1/moderation", &quarantine).await.status, 200);
        let again: Receipt = bob.post_bytes("/api/v1/uploads", json(&timed(0.6))).await.json();
        assert_eq!((again.standing, again.reason.as_deref()), (Standing::Quarantined, Some("tested")));
        // New solutions in the upload do not make the quarantined ones count.
        let more = [mm(2048, 2048, 2048), mm(1024, 1024, 1024)];
        let more = send(&bob, &dataset(h200(), &more, 4.0 * 0.6)).await;
        assert_eq!((more.new_solutions, more.standing), (1, Standing::Quarantined));
        settle(store).await;
        assert_eq!(seen(&app).await, without);
        // Another file of his with other timings counts. So do the timings that others send.
        assert_eq!(send(&bob, &timed(0.7)).await.standing, Standing::Counts);
        let cyd = Visitor::signed_up(&app, "cyd").await;
        let copy = send(&cyd, &dataset(h200(), &[mm(2048, 2048, 2048)], 4.0 * 0.6)).await;
        assert_eq!((copy.new_solutions, copy.standing), (0, Standing::Counts));
        let restore = act("restore", r#"{"account":"bob"}"#);
        let done: Moderated = root.post("/api/v1/moderation", &restore).await.json();
        assert_eq!(done.uploads.len(), 3);
        settle(store).await;
        app.end().await;
    }
}

#[tokio::test]
async fn what_others_sent_too_stays_when_an_account_is_moderated() {
    for action in ["quarantine", "delete"] {
        for app in TestApp::on_both(&format!("handed_over_{action}")).await {
            let store = app.backend.store.as_ref();
            let root = administrator(&app).await;
            let (eve, bob) = (Visitor::signed_up(&app, "eve").await, Visitor::signed_up(&app, "bob").await);
            let both = send(&eve, &timed(0.9)).await;
            assert_eq!(bob.post_bytes("/api/v1/uploads", columnar(&timed(0.9))).await.status, 200);
            let before = seen(&app).await;
            let hers = send(&eve, &timed(0.8)).await;
            let request = act(action, r#"{"account":"eve"}"#);
            let done: Moderated = root.post("/api/v1/moderation", &request).await.json();
            assert_eq!(done.uploads, [hers.id]);
            settle(store).await;
            assert_eq!(seen(&app).await, before);
            let kept = store.receipt(&both.id).await.unwrap().unwrap();
            assert_eq!((kept.contributor.unwrap().as_str(), kept.standing), ("bob", Standing::Counts));
            assert!(app.blobs().join("uploads").join(both.digest.as_str()).exists());
            app.end().await;
        }
    }
}

#[tokio::test]
async fn only_administrators_moderate() {
    let app = TestApp::public(SignUps::Open).await;
    let root = administrator(&app).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    let upload = send(&ada, &timed(1.0)).await;
    let quarantine = act("quarantine", &format!(r#"{{"upload":"{}"}}"#, upload.id));
    ada.post("/api/v1/moderation", &quarantine).await.refusal(403, "forbidden");
    Visitor::new(&app).post("/api/v1/moderation", &quarantine).await.refusal(401, "unauthorized");
    for unknown in [r#"{"upload":"0123456789abcdef"}"#, r#"{"account":"nobody"}"#] {
        root.post("/api/v1/moderation", &act("delete", unknown)).await.refusal(404, "not_found");
    }
    for broken in [
        act("burn", r#""anonymous""#),
        act("delete", r#"{"upload":"x"}"#),
        act("delete", r#""anonymous""#).replace("tested", " "),
        act("delete", r#""anonymous""#).replace("tested", "\\u202e"),
    ] {
        root.post("/api/v1/moderation", &broken).await.refusal(400, "invalid");
    }
    assert_eq!(app.get(&format!("/api/v1/uploads/{}", upload.id)).await.status, 200);
    assert_eq!(app.log().await, []);
}

#[tokio::test]
async fn users_report_and_administrators_read() {
    for app in TestApp::on_both("reports").await {
        let root = administrator(&app).await;
        let ada = Visitor::signed_up(&app, "ada").await;
        let upload = send(&ada, &timed(1.0)).await;
        let reason: Reason = "times of another GPU".parse().unwrap();
        let report = NewReport { upload: upload.id.clone(), reason: reason.clone() };
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(ada.post("/api/v1/reports", &text).await.status, 204);
        let unknown = text.replace(upload.id.as_str(), "0123456789abcdef");
        ada.post("/api/v1/reports", &unknown).await.refusal(404, "not_found");
        let page = root.page("/admin/uploads").await;
        assert!(page.contains("by ada: times of another GPU"), "{page}");
        let listed = app.backend.store.reports(9).await.unwrap();
        assert_eq!((listed.len(), &listed[0].upload, &listed[0].reason), (1, &upload.id, &reason));
        assert_eq!(listed[0].who.as_ref().unwrap().as_str(), "ada");
        for _ in 0..18 {
            assert_eq!(ada.post("/api/v1/reports", &text).await.status, 204);
        }
        ada.post("/api/v1/reports", &text).await.refusal(429, "too_many");
        app.end().await;
    }
}

#[tokio::test]
async fn the_command_line_moderates_too() {
    let app = TestApp::with_seven().await;
    let (code, said, _) = app.admin(&["uploads"]);
    assert_eq!(code, Some(0));
    assert!(said.contains("without an account, counts"), "{said}");
    let (_, said, _) = app.admin(&["quarantine", "--anonymous", "--reason", "a test"]);
    assert_eq!(said, "quarantine uploads without an account: 1 upload changed\n");
    let (_, said, _) = app.admin(&["uploads", "--standing", "quarantined"]);
    assert!(said.contains("quarantined: a test"), "{said}");
    let id = said.split(' ').next().unwrap();
    assert_eq!(app.admin(&["restore", id, "--reason", "done"]).0, Some(0));
    let (_, log, _) = app.admin(&["log"]);
    assert!(log.starts_with(|c: char| c.is_ascii_digit()) && log.contains("command line: restore upload"));
    let (code, _, error) = app.admin(&["remove", "0123456789abcdef", "--reason", "x"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("no upload 0123456789abcdef"), "{error}");
    let (_, said, _) =
        app.admin(&["confirm-hardware", "nvidia-h200", "--upload", id, "--reason", "the same"]);
    assert_eq!(said, "the facts of nvidia-h200 are confirmed\n");
    let (code, _, error) = app.admin(&["confirm-hardware", "nvidia-z1", "--reason", "x"]);
    assert!(code == Some(1) && error.contains("nobody has described `nvidia-z1`"), "{error}");
    let (code, _, error) = app.admin(&["confirm-hardware", "nvidia-z1", "--upload", id, "--reason", "x"]);
    assert!(code == Some(1) && error.contains("does not describe `nvidia-z1`"), "{error}");
    // Neither a subject nor a reason is given.
    assert_eq!(app.admin(&["remove"]).0, Some(2));
    assert_eq!(app.admin(&["reports"]).1, "");
}
