//! Tests of models that have not seen a problem, from a real training.

use diode_core::{Problem, is_kept};
use diode_model::Model;
use diode_server::worker;

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
        let message = app.get(&path(&kept[0])).await.refusal(404, "not_found");
        assert!(message.contains("has not learnt problem"), "{message}");
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
