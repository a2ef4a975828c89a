//! Tests of models that people contribute, from the file to the list and to their removal.

mod deleted;
mod files;
mod hostile;
mod lock_order;
mod story;

use std::time::Duration;

use diode_api::{ContributionState, ModelSummary};
use diode_model::{Metadata, Model, Training};
use diode_server::blobs::BlobKind;
use diode_server::jobs::worker;
use diode_server::store::Now;

use crate::models::summary;
use crate::picks::MODEL;
use crate::publications::{problems, timed};
use crate::samples::{columnar, h200};
use crate::test_app::{Reply, TestApp};
use crate::visitor::Visitor;

pub(super) const CONTRIBUTE: &str =
    "/api/v1/models?description=good+at+tall+shapes&licence=MIT+OR+Apache-2.0";

/// A model that can be judged. Each number gives another file.
pub(super) fn file(number: u64) -> Vec<u8> {
    let shipped = Model::from_bytes(&std::fs::read(MODEL).unwrap()).unwrap();
    let about = shipped.metadata().clone();
    let training = Training { seed: number, without_kept: true, ..about.training.clone() };
    let model = Model::from_network(Metadata { training, ..about }, shipped.network().clone()).unwrap();
    model.to_bytes().unwrap()
}

/// Publishes a model, and measures the problems that judge models.
pub(super) async fn ready(app: &TestApp, ada: &Visitor<'_>) -> ModelSummary {
    let measured = columnar(&timed(&problems(), true, 1.0));
    assert_eq!(ada.post_bytes("/api/v1/uploads", measured).await.status, 201);
    let bytes = file(1000);
    let model = summary(&bytes);
    app.backend.blobs.put(BlobKind::Model, &model.digest, bytes.into()).await.unwrap();
    assert!(app.backend.store.add_shipped_model(&model, &h200(), &[], None, Now::read()).await.unwrap());
    model
}

pub(super) async fn contribute(visitor: &Visitor<'_>, number: u64) -> ModelSummary {
    let reply = visitor.post_bytes(CONTRIBUTE, file(number)).await;
    assert_eq!(reply.status, 201, "{}", String::from_utf8_lossy(&reply.body));
    reply.json()
}

pub(super) async fn review(root: &Visitor<'_>, action: &str, model: &ModelSummary) -> Reply {
    root.act(action, &[("model", model.id.as_str()), ("reason", "tested")]).await
}

/// Reviews a model, which must be possible. Returns the model after it.
pub(super) async fn reviewed(
    app: &TestApp,
    root: &Visitor<'_>,
    action: &str,
    model: &ModelSummary,
) -> ModelSummary {
    review(root, action, model).await.page(200);
    app.backend.store.contribution(&model.id).await.unwrap().unwrap()
}

pub(super) async fn own(visitor: &Visitor<'_>) -> Vec<ModelSummary> {
    let reply = visitor.get("/api/v1/contributions").await;
    assert_eq!(reply.status, 200);
    reply.json()
}

pub(super) fn state(model: &ModelSummary) -> ContributionState {
    model.contribution.as_ref().unwrap().state
}

/// Runs a worker until no model of a contributor waits to be judged.
pub(super) async fn judge_all(app: &TestApp, visitor: &Visitor<'_>) {
    let (stop, stopping) = tokio::sync::watch::channel(false);
    let working = tokio::spawn(worker::run(app.backend.clone(), stopping));
    while own(visitor).await.iter().any(|model| state(model) == ContributionState::Waiting) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stop.send_replace(true);
    working.await.unwrap();
}
