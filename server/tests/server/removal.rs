//! What a removed upload had touched goes with it; what must not go stays. On both databases.

use diode_api::{
    HardwareSummary, Leaderboard, ModelState, ModelSummary, Moderation, ModerationAction, ModerationSubject,
    Reason,
};
use diode_core::hardware::Hardware;
use diode_core::ids::UploadId;
use diode_core::{Config, DType, Op, TimeColumn};
use diode_server::admin::verify;
use diode_server::store::{ComparedWithPublished, Now, Store};

use crate::models::summary;
use crate::moderation::administrator;
use crate::samples::{columnar, dataset, h200, mm, problem};
use crate::test_app::TestApp;
use crate::visitor::PASSWORD;

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
        remove(store, ModerationAction::Delete, &honest).await;
        assert_eq!(served().await[0].id, shipped.id);
        app.end().await;
    }
}

#[tokio::test]
async fn hardware_of_which_nothing_counts_is_on_no_page() {
    for app in TestApp::on_both("gone_hardware").await {
        let made_up = Hardware::from_name("NVIDIA Z9000").unwrap();
        app.receipt(columnar(&dataset(h200(), &[mm(512, 512, 512)], 4.0))).await;
        let upload = app.receipt(columnar(&dataset(made_up.clone(), &[mm(512, 512, 512)], 4.0))).await.id;
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
