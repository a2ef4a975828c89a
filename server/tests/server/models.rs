use std::collections::BTreeMap;

use diode_api::{ModelSource, ModelState, ModelSummary, ModelType};
use diode_core::ids::{Digest, ModelId};
use diode_core::{DType, Heuristic, Op};
use diode_server::blobs::BlobKind;
use diode_server::store::Now;

use crate::samples::h200;
use crate::test_app::TestApp;

/// The row of a model with these bytes.
pub(crate) fn summary(bytes: &[u8]) -> ModelSummary {
    ModelSummary {
        id: ModelId::of(bytes),
        heuristic: Heuristic::Matmul,
        model_type: ModelType::Ranking,
        hardware: h200().slug,
        ops: vec![Op::Mm],
        dtypes: vec![DType::BFloat16],
        feature_set: "physics/5".to_owned(),
        parameters: 8_833,
        digest: Digest::of(bytes),
        bytes: bytes.len() as u64,
        source: ModelSource::Shipped,
        job: None,
        created_at: "2026-11-20T12:00:00Z".to_owned(),
        data_digest: Digest::of(b"data"),
        training_problems: 209,
        training_timings: 320_606,
        evaluation: Some(diode_api::EvaluationReport {
            problems: 209,
            configs: 1534,
            top_k: BTreeMap::new(),
            mape_all: 0.1,
            mape_within_2x: 0.05,
            spearman_median: 0.98,
            rank_us_per_problem: 900.0,
            within_5_percent: BTreeMap::new(),
            split: "4-fold cross-validation".to_owned(),
        }),
        kept: None,
        file_name: "matmul-nvidia-h200.safetensors".to_owned(),
        withdrawn_uploads: 0,
        unseen_models: false,
        state: ModelState::Published,
        reason: String::new(),
        pinned: false,
        contribution: None,
    }
}

#[tokio::test]
async fn a_model_is_listed_and_downloaded_once() {
    let app = TestApp::new().await;
    let bytes = b"weights ".repeat(64);
    let model = summary(&bytes);
    app.backend.blobs.put(BlobKind::Model, &model.digest, bytes.clone().into()).await.unwrap();
    assert!(app.backend.store.add_shipped_model(&model, &h200(), &[], None, Now::read()).await.unwrap());

    for path in ["/api/v1/models", "/api/v1/models?hardware=nvidia-h200"] {
        assert_eq!(app.fetch::<Vec<ModelSummary>>(path).await, std::slice::from_ref(&model));
    }
    assert_eq!(app.fetch::<Vec<ModelSummary>>("/api/v1/models?hardware=nvidia-h100").await, []);
    assert_eq!(app.fetch::<ModelSummary>(&format!("/api/v1/models/{}", model.id)).await, model);

    let path = format!("/api/v1/models/{}/download", model.id);
    let reply = app.get(&path).await;
    assert_eq!(reply.body, bytes);
    assert_eq!(
        reply.header("content-disposition"),
        "attachment; filename=\"matmul-nvidia-h200.safetensors\""
    );
    assert!(reply.header("cache-control").contains("immutable"));
    assert_eq!(reply.header("etag"), format!("\"{}\"", model.digest));
    let again = app.get_with(&path, &[("if-none-match", reply.header("etag"))]).await;
    assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
    let stale = app.get_with(&path, &[("if-none-match", "\"other\"")]).await;
    assert_eq!((stale.status.as_u16(), &stale.body), (200, &bytes));
    // A whole model is sent compressed, a part of it as it is.
    for coding in ["br", "gzip"] {
        let packed = app.get_with(&path, &[("accept-encoding", coding)]).await;
        assert_eq!((packed.header("content-encoding"), packed.header("accept-ranges")), (coding, ""));
        assert!(packed.body.len() < bytes.len() / 4, "{coding}: {}", packed.body.len());
    }
    let part = app.get_with(&path, &[("accept-encoding", "br"), ("range", "bytes=8-15")]).await;
    assert_eq!((part.status.as_u16(), part.header("content-encoding")), (206, ""));
    assert_eq!(part.body, b"weights ");
}

#[tokio::test]
async fn unknown_models_are_not_found() {
    let app = TestApp::new().await;
    for path in ["0123456789abcdef", "0123456789abcdef/download", "x"] {
        let message = app.get(&format!("/api/v1/models/{path}")).await.refusal(404, "not_found");
        assert!(message.contains("/api/v1/models lists"), "{message}");
    }
    app.get("/api/v1/models?hardware=H%20200").await.refusal(400, "invalid");
}
