//! Tests with several contributors: pages show what they agree on, and wrong times of one of them change
//! nothing.

use diode_api::{LeaderboardRow, Page, ProblemDetail, Receipt, Standing, Uploads};
use diode_core::{Config, Dataset, Problem, Tile, TimeColumn};
use diode_server::admin::verify_entries;
use diode_server::blobs::BlobKind;
use diode_server::store::Store;

use crate::samples::{columnar, dataset, h200, json, mm, solution};
use crate::test_app::TestApp;
use crate::visitor::Visitor;

const BOARD: &str = "/api/v1/hardware/nvidia-h200/leaderboard";

pub(crate) fn problems() -> Vec<Problem> {
    [(2048, 2048, 2048), (4096, 4096, 4096), (4096, 2048, 8192)].map(|(m, n, k)| mm(m, n, k)).into()
}

/// Times of some problems, so long that half of each would still be above the floor.
pub(crate) fn timed(factor: f64) -> Dataset {
    dataset(h200(), &problems(), 4.0 * factor)
}

pub(crate) async fn send(visitor: &Visitor<'_>, data: &Dataset) -> Receipt {
    let reply = visitor.post_bytes("/api/v1/uploads", columnar(data)).await;
    assert_eq!(reply.status, 201, "{}", String::from_utf8_lossy(&reply.body));
    reply.json()
}

pub(crate) async fn settle(store: &Store) {
    while store.refresh_entries().await.unwrap() > 0 {}
    let verified = verify_entries(store).await.unwrap();
    assert!(verified.is_clean() && verified.stale == 0 && verified.to_judge == 0, "{verified}");
}

/// Everything that is computed from the timings.
pub(crate) async fn seen(app: &TestApp) -> Vec<String> {
    let mut seen = Vec::new();
    for path in [BOARD, "/api/v1/tables/nvidia-h200.json", "/api/v1/datasets/nvidia-h200.json"] {
        seen.push(String::from_utf8(app.get(path).await.body).unwrap());
    }
    let problem = format!("/api/v1/problems/{}", problems()[0].id());
    seen.push(String::from_utf8(app.get(&problem).await.body).unwrap());
    // The data for a training.
    let stored = app.backend.store.training_data(&h200().slug).await.unwrap();
    let columns: Vec<_> = stored.solutions.iter().map(|solution| &solution.columns).collect();
    seen.push(format!("{columns:?}"));
    seen
}

const HONEST: [(&str, f64); 3] = [("ada", 1.0), ("bob", 1.01), ("cyd", 0.99)];

#[tokio::test]
async fn whoever_lies_moves_nothing() {
    let honest = TestApp::new().await;
    send_honest(&honest).await;
    settle(honest.backend.store.as_ref()).await;
    for app in TestApp::on_both("lies").await {
        let store = app.backend.store.as_ref();
        let (eve, mal) = (Visitor::signed_up(&app, "eve").await, Visitor::signed_up(&app, "mal").await);
        let lie = send(&eve, &timed(0.5)).await;
        assert_eq!((lie.standing, lie.log_ratio), (Standing::Counts, None), "nobody can tell yet");
        let mut first = None;
        for (name, factor) in HONEST {
            let receipt = send(&Visitor::signed_up(&app, name).await, &timed(factor)).await;
            assert_eq!(receipt.contributor.as_ref().unwrap().as_str(), name);
            first.get_or_insert(receipt.id);
        }
        settle(store).await;
        let before = seen(&app).await;
        for number in 1..=50 {
            let receipt = send(&mal, &timed(0.5 + f64::from(number) * 1e-4)).await;
            assert_eq!(receipt.standing, Standing::Fenced, "{receipt:?}");
        }
        settle(store).await;
        assert_eq!(seen(&app).await, before);
        assert_eq!(before, seen(&honest).await);

        let lie = store.receipt(&lie.id).await.unwrap().unwrap();
        assert_eq!((lie.standing, lie.compared_problems), (Standing::Fenced, 3));
        assert!((lie.log_ratio.unwrap() + 0.69).abs() < 0.01, "{lie:?}");
        assert!(lie.reason.unwrap().contains("0.50 times"));
        let ada = store.receipt(&first.unwrap()).await.unwrap().unwrap();
        // Two of the four others send wrong times, so nobody can say how far she is off.
        assert_eq!((ada.standing, ada.reason, ada.log_ratio), (Standing::Counts, None, None));
        let row = app.fetch::<Page<LeaderboardRow>>(BOARD).await.items.remove(0);
        assert_eq!((row.contributors, row.solutions, row.unconfirmed), (3, 3, false));
        app.end().await;
    }
}

async fn send_honest(app: &TestApp) {
    for (name, factor) in HONEST {
        send(&Visitor::signed_up(app, name).await, &timed(factor)).await;
    }
}

#[tokio::test]
async fn a_lie_in_another_file_is_fenced_too() {
    let honest = TestApp::new().await;
    send_honest(&honest).await;
    settle(honest.backend.store.as_ref()).await;
    for app in TestApp::on_both("again").await {
        let store = app.backend.store.as_ref();
        let (eve, mal) = (Visitor::signed_up(&app, "eve").await, Visitor::signed_up(&app, "mal").await);
        let lie = send(&eve, &timed(0.5)).await;
        let copy = send(&mal, &dataset(h200(), &problems()[..2], 4.0 * 0.5)).await;
        assert_eq!((copy.new_solutions, copy.duplicate_solutions), (0, 2));
        send_honest(&app).await;
        settle(store).await;
        for id in [&lie.id, &copy.id] {
            assert_eq!(store.receipt(id).await.unwrap().unwrap().standing, Standing::Fenced);
        }
        let again: Receipt = eve.post_bytes("/api/v1/uploads", json(&timed(0.5))).await.json();
        assert_eq!((again.duplicate_solutions, again.standing), (3, Standing::Fenced));
        settle(store).await;
        assert_eq!(seen(&app).await, seen(&honest).await);
        app.end().await;
    }
}

#[tokio::test]
async fn copies_of_others_hide_no_lie() {
    for app in TestApp::on_both("copies").await {
        let lied_about = [mm(8192, 2048, 2048), mm(2048, 8192, 2048)];
        let all = [problems(), lied_about.to_vec()].concat();
        for (name, factor) in HONEST.into_iter().chain([("dan", 1.02)]) {
            send(&Visitor::signed_up(&app, name).await, &dataset(h200(), &all, 4.0 * factor)).await;
        }
        let mut data = timed(1.0);
        for problem in &lied_about {
            let lie = solution(problem, 4.0 * 0.5, &mut data.configs);
            data.solutions.push(lie);
        }
        let receipt = send(&Visitor::signed_up(&app, "eve").await, &data).await;
        assert_eq!((receipt.new_solutions, receipt.duplicate_solutions), (2, 3));
        assert_eq!((receipt.standing, receipt.compared_problems), (Standing::Fenced, 2));
        settle(app.backend.store.as_ref()).await;
        app.end().await;
    }
}

#[tokio::test]
async fn a_best_that_one_contributor_alone_has_seen_is_unconfirmed() {
    for app in TestApp::on_both("unconfirmed").await {
        for (name, factor) in HONEST {
            let mut data = timed(factor);
            if name == "cyd" {
                let config = data.configs.intern(Config::Mm(Tile::new(128, 128, 64, 5, 4).for_k(2048)));
                let solution = &mut data.solutions[0];
                let mut times: Vec<u64> = solution.times.iter_nanos().map(|time| time.0 as u64).collect();
                times.push(times.iter().min().unwrap() / 2);
                solution.configs.push(config);
                solution.times = TimeColumn::from_nanos(times).unwrap();
            }
            send(&Visitor::signed_up(&app, name).await, &data).await;
        }
        let rows = app.fetch::<Page<LeaderboardRow>>(BOARD).await.items;
        for row in &rows {
            assert_eq!(row.unconfirmed, row.problem == problems()[0], "{row:?}");
            assert_eq!(row.contributors, 3);
        }
        let detail: ProblemDetail = app.fetch(&format!("/api/v1/problems/{}", problems()[0].id())).await;
        assert_eq!((detail.configs[0].contributors, detail.configs[1].contributors), (1, 3));
        app.end().await;
    }
}

#[tokio::test]
async fn what_others_sent_too_stays_theirs() {
    for app in TestApp::on_both("others").await {
        let store = app.backend.store.as_ref();
        let [ada, bob, cyd] = [
            Visitor::signed_up(&app, "ada").await,
            Visitor::signed_up(&app, "bob").await,
            Visitor::signed_up(&app, "cyd").await,
        ];
        let first = send(&ada, &timed(1.0)).await;
        // Bob sends the same timings in another file. Cyd sends the same file.
        let reply = bob.post_bytes("/api/v1/uploads", json(&timed(1.0))).await;
        let same: Receipt = reply.json();
        assert_eq!((same.new_solutions, same.duplicate_solutions), (0, 3));
        assert_eq!(cyd.post_bytes("/api/v1/uploads", columnar(&timed(1.0))).await.status, 200);
        let before = seen(&app).await;
        let account =
            async |name: &str| store.credentials(&name.parse().unwrap()).await.unwrap().unwrap().account.id;
        assert_eq!(
            store.delete_account(&account("ada").await, Uploads::Delete).await.unwrap(),
            Some(Vec::new())
        );
        settle(store).await;
        assert_eq!(seen(&app).await, before);
        let kept = store.receipt(&first.id).await.unwrap().unwrap();
        assert_eq!(kept.contributor.unwrap().as_str(), "cyd");
        let files = store.delete_account(&account("cyd").await, Uploads::Delete).await.unwrap().unwrap();
        assert_eq!(files, [(BlobKind::Upload, first.digest)]);
        assert_eq!(seen(&app).await, before);
        store.delete_account(&account("bob").await, Uploads::Delete).await.unwrap();
        settle(store).await;
        assert_eq!(app.fetch::<Page<LeaderboardRow>>(BOARD).await.items, []);
        app.end().await;
    }
}
