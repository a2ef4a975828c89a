//! Tests of two kinds of hardware that turn out to be one.

use diode_api::{
    HardwareSummary, JobKind, JobRequest, LeaderboardRow, ModelState, Page, Receipt, Registration,
};
use diode_core::Heuristic;
use diode_core::hardware::Hardware;
use diode_server::store::Now;

use crate::agents::{h200_registration, register, take};
use crate::models::summary;
use crate::moderation::administrator;
use crate::samples::{columnar, dataset, h200, mm};
use crate::test_app::{Reply, TestApp};
use crate::trust::{seen, send, settle};
use crate::visitor::Visitor;

const BOARD: &str = "/api/v1/hardware/nvidia-h200/leaderboard";

/// The H200 under another name, which is in no catalogue.
fn other() -> Hardware {
    Hardware { facts: h200().facts, ..Hardware::from_name("NVIDIA Q200").unwrap() }
}

async fn merge(visitor: &Visitor<'_>, from: &str, into: &str) -> Reply {
    visitor.act("merge-hardware", &[("from", from), ("into", into), ("reason", "one and the same")]).await
}

#[tokio::test]
async fn what_was_measured_under_either_name_is_one_hardwares() {
    let slug = other().slug;
    let [few, more] =
        [[mm(4096, 4096, 4096)].to_vec(), [mm(4096, 4096, 4096), mm(4096, 2048, 8192)].to_vec()];
    for app in TestApp::on_both("merging").await {
        let store = app.backend.store.as_ref();
        let root = administrator(&app).await;
        let (ada, bob) = (Visitor::signed_up(&app, "ada").await, Visitor::signed_up(&app, "bob").await);
        send(&ada, &dataset(h200(), &few, 4.0)).await;
        let theirs = columnar(&dataset(other(), &more, 4.2));
        assert_eq!(bob.post_bytes("/api/v1/uploads", theirs.clone()).await.status, 201);
        let agent = register(&app, &Registration { hardware: other(), ..h200_registration() }).await;
        let model = diode_api::ModelSummary { hardware: slug.clone(), ..summary(b"theirs") };
        store.add_shipped_model(&model, &other(), &[], Some(b"unseen"), Now::read()).await.unwrap();
        assert!(store.model(&model.id).await.unwrap().unwrap().unseen_models);
        settle(store).await;

        let done = merge(&root, slug.as_str(), "nvidia-h200").await.page(200);
        assert!(done.contains("with its 2 solutions"), "{done}");
        settle(store).await;

        // The answers are as if everything had been sent under one name.
        let listed: Vec<HardwareSummary> = app.fetch("/api/v1/hardware").await;
        assert_eq!(listed.iter().map(|one| one.hardware.slug.as_str()).collect::<Vec<_>>(), ["nvidia-h200"]);
        assert_eq!((listed[0].problems, listed[0].solutions), (2, 3));
        let board: Page<LeaderboardRow> = app.fetch(BOARD).await;
        let contributors: Vec<u64> = board.items.iter().map(|row| row.contributors).collect();
        assert_eq!(contributors.iter().sum::<u64>(), 3, "{contributors:?}");
        // The old address leads to the other hardware.
        let found: HardwareSummary = app.fetch(&format!("/api/v1/hardware/{slug}")).await;
        assert_eq!(found.hardware, h200());
        let before = seen(&app).await;

        // Timings that arrive later under the old name are the other hardware's, too. The same timings are
        // duplicates.
        let mut again = dataset(other(), &more, 4.2);
        again.provenance.tool = Some("another file".to_owned());
        let receipt: Receipt = bob.post_bytes("/api/v1/uploads", columnar(&again)).await.json();
        assert_eq!((receipt.new_solutions, receipt.duplicate_solutions), (0, 2));
        assert_eq!(receipt.hardware[0].slug, h200().slug);
        settle(store).await;
        assert_eq!(seen(&app).await[0], before[0]);

        // The agent measures for the other hardware, before and after it registers again.
        assert!(!take(&app, &agent).await.work.is_empty());
        let agents: Vec<diode_api::Agent> = app.fetch("/api/v1/agents?hardware=nvidia-h200").await;
        assert_eq!(agents[0].id, agent.id);
        let anew = register(&app, &Registration { hardware: other(), ..h200_registration() }).await;
        assert_eq!((anew.id, anew.hardware), (agent.id, h200().slug));

        // The models of the old hardware stay, but no program takes them by itself.
        let model = store.model(&model.id).await.unwrap().unwrap();
        assert_eq!(
            (model.hardware, model.state, model.unseen_models),
            (slug.clone(), ModelState::Earlier, false)
        );
        let log = app.log().await;
        assert_eq!(log[0].what, format!("merge hardware {slug} into nvidia-h200"));
        app.end().await;
    }
}

#[tokio::test]
async fn what_cannot_be_one_stays_apart() {
    let app = TestApp::accepting_simulated().await;
    let root = administrator(&app).await;
    let slug = other().slug;
    let made_up = h200().simulated().unwrap();
    app.receipt(columnar(&dataset(other(), &[mm(64, 64, 64)], 9.0))).await;
    app.receipt(columnar(&dataset(h200(), &[mm(64, 64, 64)], 9.0))).await;
    let ask = async |from: &str, into: &str| merge(&root, from, into).await;
    ask("nvidia-h200", slug.as_str()).await.page(422);
    ask(slug.as_str(), slug.as_str()).await.page(422);
    ask(slug.as_str(), "nvidia-x9").await.page(404);
    ask("nvidia-x9", "nvidia-h200").await.page(404);
    app.receipt(columnar(&dataset(made_up.clone(), &[mm(64, 64, 64)], 9.0))).await;
    ask(made_up.slug.as_str(), "nvidia-h200").await.page(422);
    let request = JobRequest::new(JobKind::Train, Heuristic::Matmul, slug.clone());
    assert_eq!(root.post("/api/v1/jobs", &serde_json::to_string(&request).unwrap()).await.status, 202);
    ask(slug.as_str(), "nvidia-h200").await.page(409);
    // Only administrators may merge.
    let ada = Visitor::signed_up(&app, "ada").await;
    assert_eq!(merge(&ada, slug.as_str(), "nvidia-h200").await.status, 403);
    let (code, _, error) = app.admin(&["merge-hardware", "nvidia-h200", "nvidia-x9", "--reason", "x"]);
    assert!(code == Some(1) && error.contains("no hardware `nvidia-x9`"), "{error}");
    let listed: Vec<HardwareSummary> = app.fetch("/api/v1/hardware").await;
    assert!(listed.iter().any(|one| one.hardware.slug == slug));
}

#[tokio::test]
async fn administrators_vouch_for_facts_on_a_page_too() {
    let app = TestApp::new().await;
    let root = administrator(&app).await;
    let receipt = app.receipt(columnar(&dataset(other(), &[mm(64, 64, 64)], 9.0))).await;
    assert!(!receipt.hardware[0].confirmed);
    let slug = other().slug;
    let ask = async |hardware: &str, upload: &str| {
        let fields = [("slug", hardware), ("upload", upload), ("reason", "its data sheet")];
        root.act("confirm-hardware", &fields).await
    };
    ask("nvidia-x9", receipt.id.as_str()).await.page(422);
    ask(slug.as_str(), "0123456789abcdef").await.page(404);
    ask(slug.as_str(), receipt.id.as_str()).await.page(200);
    let confirmed: HardwareSummary = app.fetch(&format!("/api/v1/hardware/{slug}")).await;
    assert!(confirmed.confirmed && confirmed.hardware.slug == slug);
    // From now on, times are judged by the confirmed facts.
    let refused = app.upload(columnar(&dataset(other(), &[mm(8192, 8192, 8192)], 1e-6))).await;
    refused.refusal(422, "refused");
}
