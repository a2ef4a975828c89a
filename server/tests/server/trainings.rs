//! Tests of trainings that the server asks for by itself.

use diode_api::{Job, JobState};
use diode_core::Problem;
use diode_core::hardware::Hardware;
use diode_server::jobs::trainings::{look, run};
use diode_server::settings::Training;
use diode_server::store::Now;

use crate::samples::{columnar, dataset, h200, mm};
use crate::test_app::TestApp;

fn settings() -> Training {
    Training { automatic: true, new_problems: 5, new_share: 0.0, pause_minutes: 0 }
}

fn sizes(range: std::ops::Range<u64>) -> Vec<Problem> {
    range.map(|m| mm(64 * m, 512, 512)).collect()
}

#[tokio::test]
async fn enough_that_is_new_is_trained_on_once() {
    for app in TestApp::on_both("trainings").await {
        let backend = &app.backend;
        app.receipt(columnar(&dataset(h200(), &sizes(1..5), 1.0))).await;
        assert_eq!(look(backend, &settings(), Now::read()).await.unwrap(), 0);
        app.receipt(columnar(&dataset(h200(), &sizes(5..6), 1.0))).await;
        let replicas = (0..4).map(|_| {
            let backend = backend.clone();
            tokio::spawn(async move { look(&backend, &settings(), Now::read()).await.unwrap() })
        });
        let mut queued = 0;
        for replica in replicas.collect::<Vec<_>>() {
            queued += replica.await.unwrap();
        }
        assert_eq!(queued, 1);
        let jobs: Vec<Job> = app.fetch("/api/v1/jobs").await;
        assert_eq!(jobs.len(), 1);
        assert!(jobs[0].automatic && jobs[0].state == JobState::Queued);
        assert_eq!(jobs[0].request.hardware, h200().slug);
        assert_eq!(look(backend, &settings(), Now::read()).await.unwrap(), 0, "nothing is new");
        // Problems whose solutions do not count are not new.
        let sent = app.receipt(columnar(&dataset(h200(), &sizes(6..11), 1.0))).await;
        let act = serde_json::json!({
            "action": "quarantine", "subject": { "upload": sent.id }, "reason": "tested"
        });
        let act = serde_json::from_value(act).unwrap();
        backend.store.moderate(&act, "ada", Now::read()).await.unwrap().unwrap();
        assert_eq!(look(backend, &settings(), Now::read()).await.unwrap(), 0);
        app.end().await;
    }
}

#[tokio::test]
async fn a_server_trains_by_itself_only_where_it_may() {
    let simulated = h200().simulated().unwrap();
    let unknown = Hardware::from_name("NVIDIA Z9000").unwrap();
    let app = TestApp::accepting_simulated().await;
    for hardware in [simulated.clone(), unknown] {
        assert_eq!(app.upload(columnar(&dataset(hardware, &sizes(1..7), 1.0))).await.status, 201);
    }
    // A server that refuses simulated times does not train on them. Nobody can train on hardware without
    // facts.
    let mut strict = app.backend.clone();
    strict.accept_simulated = false;
    assert_eq!(look(&strict, &settings(), Now::read()).await.unwrap(), 0);
    // If automatic training is switched off, `run` ends at once.
    run(app.backend.clone(), Training { automatic: false, ..settings() }, app.stopping()).await;
    assert_eq!(app.fetch::<Vec<Job>>("/api/v1/jobs").await, []);
    assert_eq!(look(&app.backend, &settings(), Now::read()).await.unwrap(), 1);
    assert_eq!(app.fetch::<Vec<Job>>("/api/v1/jobs").await[0].request.hardware, simulated.slug);
}
