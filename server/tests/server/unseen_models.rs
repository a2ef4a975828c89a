//! Tests of models that have not seen a problem, from a real training.

use diode_core::{Problem, hash_of_size, is_kept};
use diode_formats::write_atomically;
use diode_model::{Model, UnseenModels};
use diode_server::admin::seed;
use diode_server::jobs::worker;

use crate::models::summary;
use crate::picks::MODEL;
use crate::publications::{problems, timed, trained};
use crate::samples::{columnar, mm};
use crate::test_app::TestApp;

#[tokio::test(flavor = "multi_thread")]
async fn a_learnt_problem_has_a_model_that_has_not_seen_it() {
    for app in TestApp::on_both("unseen_models").await {
        let all = problems();
        app.receipt(columnar(&timed(&all, true, 1.0))).await;
        let working = tokio::spawn(worker::run(app.backend.clone(), app.stopping()));
        let first = trained(&app, 0).await;
        let path = |problem: &Problem| format!("/api/v1/models/{}/unseen/{}", first.id, problem.id());
        let file = app.get(&format!("/api/v1/models/{}/download", first.id)).await;
        let itself = Model::from_bytes(&file.body).unwrap();
        let (kept, learnt): (Vec<_>, Vec<_>) = all.into_iter().partition(is_kept);
        for problem in &learnt {
            let reply = app.get(&path(problem)).await;
            assert_eq!(reply.header("content-type"), "application/octet-stream");
            assert!(reply.header("cache-control").contains("immutable"));
            let model = Model::from_bytes(&reply.body).unwrap();
            assert_ne!(model.network(), itself.network());
            assert_eq!(model.metadata().hardware, itself.metadata().hardware);
            let again = app.get_with(&path(problem), &[("if-none-match", reply.header("etag"))]).await;
            assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
        }
        let reply = app.get(&path(&kept[0])).await;
        assert_eq!(reply.status, 307);
        assert_eq!(reply.header("location"), format!("/api/v1/models/{}/download", first.id));
        app.get(&path(&mm(7, 7, 7))).await.refusal(404, "not_found");
        app.get(&path(&learnt[0]).replace(first.id.as_str(), "none")).await.refusal(404, "not_found");

        // The next model is published instead, and only its networks stay.
        let second = trained(&app, 1).await;
        let message = app.get(&path(&learnt[0])).await.refusal(404, "not_found");
        assert!(message.contains("no networks of the cross-validation"), "{message}");
        let path = path(&learnt[0]).replace(first.id.as_str(), second.id.as_str());
        assert_eq!(app.get(&path).await.status, 200);
        app.stop();
        working.await.unwrap();
        app.end().await;
    }
}

#[tokio::test]
async fn a_released_model_brings_its_unseen_models_along() {
    for app in TestApp::on_both("shipped_unseen_models").await {
        let problems = [mm(64, 64, 64), mm(128, 128, 128)];
        let folder = app.folder.path().join("released");
        let own = folder.join("matmul/nvidia-h200");
        std::fs::create_dir_all(own.join("data")).unwrap();
        let shipped = std::fs::read(MODEL).unwrap();
        let id = summary(&shipped).id;
        write_atomically(&own.join("data/a.msgpack.zst"), &columnar(&timed(&problems, true, 1.0))).unwrap();
        write_atomically(&own.join("m.safetensors"), &shipped).unwrap();
        let path = |problem: &Problem| format!("/api/v1/models/{id}/unseen/{}", problem.id());
        seed(&app.backend, &folder).await.unwrap();
        app.get(&path(&problems[0])).await.refusal(404, "not_found");

        // Networks are added to a model that was seeded without them.
        let other = b"a model that has not seen the first".to_vec();
        let mut unseen = UnseenModels::default();
        unseen.add(other.clone(), [hash_of_size(&problems[0])]).unwrap();
        write_atomically(&own.join("m.unseen"), &unseen.to_bytes().unwrap()).unwrap();
        for _ in 0..2 {
            seed(&app.backend, &folder).await.unwrap();
            assert_eq!(app.get(&path(&problems[0])).await.body, other);
            let reply = app.get(&path(&problems[1])).await;
            assert_eq!(reply.status, 307);
            assert_eq!(reply.header("location"), format!("/api/v1/models/{id}/download"));
        }

        write_atomically(&own.join("m.unseen"), b"not one").unwrap();
        let error = format!("{:#}", seed(&app.backend, &folder).await.unwrap_err());
        assert!(error.contains("m.unseen"), "{error}");
        app.end().await;
    }
}
