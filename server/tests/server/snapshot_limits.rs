//! Tests of snapshots for which there is no more room.

use diode_api::{JobState, SnapshotSummary};
use diode_server::admin::sweep;
use diode_server::backend::Backend;
use diode_server::jobs::worker;
use diode_server::store::{Now, SnapshotLimits};

use crate::dataset_snapshots::{ASK, ended};
use crate::moderation::administrator;
use crate::samples::{columnar, seven};
use crate::test_app::TestApp;

/// The same server with other limits.
fn limited(app: &TestApp, number: u64, bytes: u64) -> Backend {
    let mut backend = app.backend.clone();
    backend.snapshots = SnapshotLimits { number, bytes };
    backend
}

#[tokio::test]
async fn full_storage_refuses_and_leaves_nothing_behind() {
    for app in TestApp::on_both("snapshot_limits").await {
        let root = administrator(&app).await;
        app.receipt(columnar(&seven())).await;
        let refusal = async |backend: Backend| {
            let working = tokio::spawn(worker::run(backend, app.stopping()));
            let job = root.post("/api/v1/snapshots", ASK).await.json();
            let job = ended(&app, &job).await;
            working.abort();
            assert_eq!(job.state, JobState::Failed);
            job.error.unwrap()
        };
        let error = refusal(limited(&app, 9, 4000)).await;
        assert!(error.contains("raise max_snapshots_mb"), "{error}");
        let error = refusal(limited(&app, 0, u64::MAX)).await;
        assert!(error.contains("raise max_snapshots"), "{error}");
        assert_eq!(app.blobs().join("snapshots").read_dir().map_or(0, Iterator::count), 0);
        assert_eq!(app.fetch::<Vec<SnapshotSummary>>("/api/v1/snapshots").await, []);
        assert_eq!(sweep(&app.backend, false, Now::read()).await.unwrap().young, 0);
        app.end().await;
    }
}
