//! Tests of uploads for problems that have so many timings that their entries are computed later.

use diode_core::{Dataset, TimeColumn};
use diode_formats::read_file;
use diode_server::admin::verify_entries;

use crate::samples::{columnar, dataset, h200, mm};
use crate::test_app::TestApp;

/// Many problems with 1,534 timings each.
const REAL: &str = "../trained_models/matmul/nvidia-h200/data/h200-mm-bf16.msgpack.zst";

/// So many problems that twice their timings are more than an upload of them computes at once.
const PROBLEMS: usize = 100;

/// The same problems, with times that are `longer` nanoseconds longer.
fn measured_again(real: &Dataset, longer: u64) -> Dataset {
    let mut again = real.clone();
    for solution in &mut again.solutions {
        let times = solution.times.iter_nanos().map(|time| time.0 as u64 + longer);
        solution.times = TimeColumn::from_nanos(times.collect()).unwrap();
    }
    again
}

#[tokio::test]
async fn an_upload_computes_some_entries_and_marks_all_others() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(REAL);
    let mut real = read_file(&path).unwrap().datasets.pop().unwrap();
    real.solutions.truncate(PROBLEMS);
    for app in TestApp::on_both("large_uploads").await {
        let store = app.backend.store.as_ref();
        for (longer, left) in [(0, 0..1), (32, 1..PROBLEMS), (64, 1..PROBLEMS + 1)] {
            assert_eq!(app.upload(columnar(&measured_again(&real, longer))).await.status, 201);
            let stale = store.stale_entries().await.unwrap().len();
            assert!(left.contains(&stale), "{stale} entries are marked, expected {left:?}");
            let verified = verify_entries(store).await.unwrap();
            assert_eq!((verified.entries, verified.stale), (PROBLEMS - stale, stale));
            assert!(verified.differences.is_empty());
        }
        while store.refresh_entries().await.unwrap() > 0 {}
        let verified = verify_entries(store).await.unwrap();
        assert_eq!((verified.entries, verified.stale, verified.differences.len()), (PROBLEMS, 0, 0));
        app.end().await;
    }
}

#[tokio::test]
async fn a_file_of_very_many_problems_is_refused() {
    let app = TestApp::new().await;
    let problems: Vec<_> = (1..=16_385).map(|m| mm(m, 64, 64)).collect();
    let message = app.upload(columnar(&dataset(h200(), &problems, 4.0))).await.refusal(422, "refused");
    assert!(message.contains("16385") && message.contains("at most 16384 in a file"), "{message}");
    assert_eq!(app.upload(columnar(&dataset(h200(), &problems[..300], 4.0))).await.status, 201);
}

/// The digest of a solution says nothing of spreads. So a copy with other spreads is not stored, and an entry that is
/// computed while it arrives has the stored ones.
#[tokio::test]
async fn a_copy_with_other_spreads_changes_no_entry() {
    let problem = [mm(4096, 4096, 4096)];
    let sent = |factor, spread| {
        let mut sent = dataset(h200(), &problem, factor);
        let solution = &mut sent.solutions[0];
        solution.spread_ns = Some(vec![spread; solution.configs.len()]);
        sent
    };
    for app in TestApp::on_both("other_spreads").await {
        app.receipt(columnar(&sent(1.0, 1_000))).await;
        let mut copied = sent(1.0, 50_000);
        copied.solutions.extend(sent(1.1, 1_000).solutions);
        let receipt = app.receipt(columnar(&copied)).await;
        assert_eq!((receipt.new_solutions, receipt.duplicate_solutions), (1, 1));
        let verified = verify_entries(app.backend.store.as_ref()).await.unwrap();
        assert_eq!((verified.entries, verified.stale, verified.differences.len()), (1, 0, 0));
        app.end().await;
    }
}
