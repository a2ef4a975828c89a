//! What a removed upload had touched goes with it; what must not go stays. On both databases.

use std::time::{Duration, Instant};

use diode_api::{
    HardwareSummary, Leaderboard, ModelState, ModelSummary, Moderation, ModerationAction, ModerationSubject,
    Picks, Reason, SnapshotDetail, SnapshotState,
};
use diode_core::hardware::{Hardware, find};
use diode_core::ids::UploadId;
use diode_core::{Config, DType, Op, TimeColumn};
use diode_server::admin::verify;
use diode_server::blobs::BlobKind;
use diode_server::boards;
use diode_server::jobs::worker;
use diode_server::store::{ComparedWithPublished, Now, Store};

use crate::dataset_snapshots::frozen;
use crate::models::summary;
use crate::moderation::administrator;
use crate::picks::MODEL;
use crate::samples::{columnar, dataset, h200, mm, problem};
use crate::test_app::TestApp;
use crate::trust::{send, settle};
use crate::visitor::{PASSWORD, Visitor};

async fn remove(store: &Store, action: ModerationAction, upload: &UploadId) {
    let subject = ModerationSubject::Upload(upload.clone());
    let reason: Reason = "made up".parse().unwrap();
    store.moderate(&Moderation { action, subject, reason }, "root", Now::read()).await.unwrap().unwrap();
}

#[tokio::test]
async fn models_go_with_the_uploads_that_they_have_learnt_from() {
    for app in TestApp::on_both("tainted_models").await {
        let store = app.backend.store.as_ref();
        let honest = app.receipt(columnar(&dataset(h200(), &[mm(2048, 512, 512)], 4.0))).await.id;
        let lie = app.receipt(columnar(&dataset(h200(), &[mm(1024, 512, 512)], 4.0))).await.id;
        let shipped = summary(b"shipped");
        assert!(store.add_shipped_model(&shipped, &h200(), &[], None, Now::read()).await.unwrap());
        let mut beside = shipped.id.clone();
        for (name, uploads) in [
            ("good", vec![honest.clone()]),
            ("bad", vec![honest.clone(), lie.clone()]),
            ("worse", vec![lie.clone()]),
        ] {
            let model = summary(name.as_bytes());
            let judged = ComparedWithPublished {
                beside: Some(beside),
                publish: true,
                why: "better".to_owned(),
                changes: vec![],
            };
            let added =
                store.add_judged_model(&model, &h200(), &uploads, None, &judged, Now::read()).await.unwrap();
            assert_eq!(added, Some(ModelState::Published));
            beside = model.id;
        }
        let id = |name: &str| summary(name.as_bytes()).id;
        let served = async || -> Vec<ModelSummary> {
            let all: Vec<ModelSummary> = app.fetch("/api/v1/models?hardware=nvidia-h200").await;
            all.into_iter().filter(|model| model.state == ModelState::Published).collect()
        };
        let tag = async || app.get("/api/v1/models?hardware=nvidia-h200").await.header("etag").to_owned();
        assert_eq!(served().await[0].id, id("worse"));
        let before = tag().await;
        // Both models that have learnt from the lie are skipped.
        remove(store, ModerationAction::Quarantine, &lie).await;
        assert_eq!(served().await[0].id, id("good"));
        assert!(before.is_empty() || before != tag().await, "clients see that another model is published");
        let gone: ModelSummary = app.fetch(&format!("/api/v1/models/{}", id("worse"))).await;
        assert_eq!(gone.state, ModelState::Unpublished);
        assert!(gone.reason.contains(lie.as_str()), "{}", gone.reason);
        // What was quarantined first and then deleted changes no more.
        remove(store, ModerationAction::Delete, &lie).await;
        assert_eq!(served().await[0].id, id("good"));
        // Sent again, it stays removed.
        let lie = columnar(&dataset(h200(), &[mm(1024, 512, 512)], 4.0));
        let said = app.upload(lie).await.refusal(422, "refused");
        assert!(said.contains("deleted: made up"), "{said}");
        remove(store, ModerationAction::Delete, &honest).await;
        assert_eq!(served().await[0].id, shipped.id);
        app.end().await;
    }
}

/// Everything that is computed from timings, as clients ask for it.
fn views() -> Vec<String> {
    let (hardware, problem) = ("/api/v1/hardware/nvidia-h200", mm(1024, 512, 512).id());
    let of_hardware = [
        String::new(),
        "/leaderboard?limit=100".to_owned(),
        "/problems".to_owned(),
        "/nearest?method=unspecified&op=mm&dtype=bfloat16&m=1000&n=512&k=512".to_owned(),
        format!("/picks?method=unspecified&problems={problem}"),
        "/configs".to_owned(),
        "/sizes".to_owned(),
        "/contributors".to_owned(),
        "/coverage".to_owned(),
        "/coverage/map".to_owned(),
    ];
    let others = [
        "/api/v1/hardware".to_owned(),
        "/api/v1/activity".to_owned(),
        format!("/api/v1/problems/{problem}?hardware=nvidia-h200"),
        format!("/api/v1/problems/{problem}/sources?hardware=nvidia-h200"),
        "/api/v1/datasets/nvidia-h200.json".to_owned(),
        "/api/v1/tables/nvidia-h200.json?top=100".to_owned(),
        "/api/v1/comparisons/hardware?a=nvidia-h100&b=nvidia-h200".to_owned(),
        "/api/v1/uploads".to_owned(),
    ];
    of_hardware.iter().map(|view| format!("{hardware}{view}")).chain(others).collect()
}

/// What the views show. When the newest data arrived may stay as it was.
async fn shown(app: &TestApp) -> Vec<(String, String, serde_json::Value)> {
    let mut shown = Vec::new();
    for path in views() {
        let reply = app.get(&path).await;
        assert_eq!(reply.status, 200, "{path}: {}", String::from_utf8_lossy(&reply.body));
        let tag = reply.header("etag").to_owned();
        let mut value: serde_json::Value = reply.json();
        forget(&mut value);
        shown.push((path, tag, value));
    }
    shown
}

fn forget(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(fields) => {
            // When the newest data arrived, and how many models there are, published or not.
            fields.remove("updated_at");
            fields.remove("models");
            fields.values_mut().for_each(forget);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(forget),
        _ => {}
    }
}

/// The server has five seconds.
#[tokio::test(flavor = "multi_thread")]
async fn every_view_shows_a_removal_at_once() {
    for app in TestApp::public_unlimited("removal_views").await {
        let store = app.backend.store.as_ref();
        let root = administrator(&app).await;
        let tasks = [
            tokio::spawn(boards::run(app.backend.clone(), app.stopping())),
            tokio::spawn(worker::run(app.backend.clone(), app.stopping())),
        ];
        let (ada, bob) = (Visitor::signed_up(&app, "ada").await, Visitor::signed_up(&app, "bob").await);
        let h100 = find("nvidia-h100").unwrap();
        let problems = [mm(1024, 512, 512), mm(2048, 512, 512), mm(2048, 2048, 2048)];
        send(&ada, &dataset(h100, &problems, 4.0)).await;
        let honest = send(&ada, &dataset(h200(), &problems[..2], 4.0)).await.id;
        let bytes = std::fs::read(MODEL).unwrap();
        let (good, bad) = (summary(&bytes), summary(b"bad"));
        app.backend.blobs.put(BlobKind::Model, &good.digest, bytes.clone().into()).await.unwrap();
        app.backend.blobs.put(BlobKind::Model, &bad.digest, "bad".into()).await.unwrap();
        let honest_only = [honest.clone()];
        assert!(store.add_shipped_model(&good, &h200(), &honest_only, None, Now::read()).await.unwrap());
        settle(store).await;
        let before = shown(&app).await;

        // The lie has a time for what the model picks, which nobody else has measured.
        let path =
            format!("/api/v1/hardware/nvidia-h200/picks?method=unspecified&problems={}", problems[0].id());
        let picked = app.fetch::<Picks>(&path).await.items[0].config;
        let mut lie = dataset(h200(), &problems, 2.0);
        lie.solutions[0].configs[1] = lie.configs.intern(picked);
        let lie = send(&bob, &lie).await.id;
        settle(store).await;
        let snapshot = frozen(&app, &root).await.summary.name;
        let poisoned = shown(&app).await;
        for (before, poisoned) in before.iter().zip(&poisoned) {
            assert_ne!(before.2, poisoned.2, "{}", before.0);
        }
        let judged = ComparedWithPublished {
            beside: Some(good.id.clone()),
            publish: true,
            why: "better".to_owned(),
            changes: vec![],
        };
        let learnt = [honest, lie.clone()];
        store.add_judged_model(&bad, &h200(), &learnt, None, &judged, Now::read()).await.unwrap().unwrap();
        let models = async || -> Vec<ModelSummary> { app.fetch("/api/v1/models?hardware=nvidia-h200").await };
        let best = |models: &[ModelSummary]| ModelSummary::best_for(models, &h200().slug).unwrap().id.clone();
        assert_eq!(best(&models().await), bad.id);

        let removed = Instant::now();
        let fields = [("act", "remove"), ("upload", lie.as_str()), ("reason", "made up"), ("sure", "yes")];
        assert_eq!(root.submit("/admin/uploads", &fields).await.status, 200);
        // The model is taken back with the removal itself: what `pull` would take is the earlier one.
        assert_eq!(best(&models().await), good.id);
        assert_eq!(app.get(&format!("/api/v1/models/{}/download", good.id)).await.body, bytes);
        let detail: SnapshotDetail = app.fetch(&format!("/api/v1/snapshots/{snapshot}")).await;
        // A quarantine would only mark it; with a deleted upload, its files go.
        assert_eq!(detail.summary.state, SnapshotState::Removed);
        app.get(&format!("/api/v1/uploads/{lie}")).await.refusal(404, "not_found");
        loop {
            let after = shown(&app).await;
            let late: Vec<&String> = (before.iter().zip(&after))
                .filter_map(|(before, after)| (before.2 != after.2).then_some(&before.0))
                .collect();
            if late.is_empty() {
                for (poisoned, after) in poisoned.iter().zip(&after).filter(|(_, after)| !after.1.is_empty())
                {
                    assert_ne!(poisoned.1, after.1, "the tag of {}", after.0);
                }
                break;
            }
            assert!(removed.elapsed() < Duration::from_secs(5), "{late:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        app.stop();
        for task in tasks {
            task.await.unwrap();
        }
        app.end().await;
    }
}

#[tokio::test]
async fn hardware_of_which_nothing_counts_is_on_no_page() {
    for app in TestApp::on_both("gone_hardware").await {
        let made_up = Hardware::from_name("NVIDIA Z9000").unwrap();
        app.receipt(columnar(&dataset(h200(), &[mm(512, 512, 512)], 4.0))).await;
        let file = columnar(&dataset(made_up.clone(), &[mm(512, 512, 512)], 4.0));
        let upload = app.receipt(file.clone()).await.id;
        let listed = async || -> Vec<String> {
            let all: Vec<HardwareSummary> = app.fetch("/api/v1/hardware").await;
            all.into_iter().map(|one| one.hardware.slug.to_string()).collect()
        };
        let path = format!("/api/v1/hardware/{}", made_up.slug);
        assert_eq!(listed().await, ["nvidia-h200", made_up.slug.as_str()]);
        let store = app.backend.store.as_ref();
        remove(store, ModerationAction::Quarantine, &upload).await;
        assert_eq!(listed().await, ["nvidia-h200"]);
        app.get(&path).await.refusal(404, "not_found");
        remove(store, ModerationAction::Restore, &upload).await;
        assert_eq!(listed().await, ["nvidia-h200", made_up.slug.as_str()]);
        remove(store, ModerationAction::Delete, &upload).await;
        assert_eq!(listed().await, ["nvidia-h200"]);
        // What was deleted for good does not come back.
        let refused = app.upload(file).await.refusal(422, "refused");
        assert!(refused.contains("an administrator has deleted"), "{refused}");
        app.end().await;
    }
}

#[tokio::test]
async fn the_last_administrator_stays() {
    for app in TestApp::public_on_both("last_administrator").await {
        let root = administrator(&app).await;
        let message = root.delete_account(PASSWORD, "keep").await.page(409);
        assert!(message.contains("the last administrator"), "{message}");
        assert_eq!(root.get("/api/v1/account").await.status, 200);
        app.end().await;
    }
}

/// Without rounding to TF32, `aten` with `allow_tf32` is the same kernel: it has one name, and a copy of a solution under
/// the other name is no second solution.
#[tokio::test]
async fn the_library_has_one_name_where_nothing_rounds() {
    for app in TestApp::on_both("library_names").await {
        for dtype in [DType::BFloat16, DType::Float32] {
            let of = |config: Config| {
                let mut dataset = dataset(h200(), &[problem(Op::Mm, 4096, 4096, 4096, dtype)], 8.0);
                let library = dataset.configs.intern(config);
                let solution = &mut dataset.solutions[0];
                let mut times: Vec<u64> = solution.times.iter_nanos().map(|time| time.0 as u64).collect();
                times.push(1_500_000);
                solution.configs.push(library);
                solution.times = TimeColumn::from_nanos(times).unwrap();
                columnar(&dataset)
            };
            let first = app.receipt(of(Config::RoundingLibrary)).await;
            assert_eq!(first.new_solutions, 1);
            let board: Leaderboard =
                app.fetch(&format!("/api/v1/hardware/nvidia-h200/leaderboard?dtype={dtype}")).await;
            let rounds = dtype == DType::Float32;
            assert_eq!(board.items[0].library.as_ref().unwrap().config, Config::library(rounds));
            let copy = app.receipt(of(Config::Library)).await;
            assert_eq!(copy.duplicate_solutions, u64::from(!rounds), "{dtype}");
        }
        let verified = verify(&app.backend).await.unwrap();
        assert!(verified.is_clean(), "{verified}");
        app.end().await;
    }
}
