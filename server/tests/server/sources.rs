//! Tests of who measured a problem, when and with what, and of the spread of its repeats.

use std::collections::BTreeMap;

use diode_api::{ProblemDetail, ProblemSources, Standing};
use diode_core::{Dataset, Provenance, TimeColumn};

use crate::samples::{collected, columnar, mm};
use crate::test_app::TestApp;
use crate::trust::{problems, send, settle, timed};
use crate::visitor::Visitor;

fn with_repeats(mut data: Dataset, shares: [f64; 2], times_run: u32) -> Dataset {
    for solution in &mut data.solutions {
        // The times differ from everybody else's. Otherwise this would be the same solution.
        let slower = 1.0 + f64::from(times_run) / 1e4;
        let times: Vec<u64> =
            solution.times.iter_nanos().map(|time| (time.0 * slower).round() as u64).collect();
        let share = |at: usize| shares[usize::from(at > 0)];
        solution.spread_ns = Some(
            times.iter().enumerate().map(|(at, time)| (*time as f64 * share(at)).round() as u64).collect(),
        );
        solution.repeats = Some(vec![times_run; times.len()]);
        solution.times = TimeColumn::from_nanos(times).unwrap();
    }
    data
}

fn told(mut data: Dataset) -> Dataset {
    let long = "x".repeat(200);
    let node = [("driver", "580.95"), ("cublas", "130002"), ("other", long.as_str())];
    data.provenance = Provenance {
        tool: Some(format!("diode 0.1.0 {long}")),
        collected_at: Some("2026-11-20T12:00:00Z".to_owned()),
        node: node.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
    };
    data
}

#[tokio::test]
async fn a_problem_says_who_measured_it_with_what() {
    for app in TestApp::public_on_both("sources").await {
        for (name, factor) in [("ada", 1.0), ("bob", 1.01), ("cyd", 0.99), ("dan", 1.02), ("eve", 0.5)] {
            let data = if name == "ada" { told(timed(factor)) } else { timed(factor) };
            send(&Visitor::signed_up(&app, name).await, &data).await;
        }
        settle(app.backend.store.as_ref()).await;
        let id = problems()[0].id();
        let ProblemSources { sources, more } =
            app.fetch(&format!("/api/v1/problems/{id}/sources?hardware=nvidia-h200")).await;
        assert_eq!((sources.len(), more), (5, 0));
        assert!(sources.is_sorted_by(|a, b| a.received_at >= b.received_at));
        let by: BTreeMap<String, _> =
            sources.iter().map(|one| (one.contributor.as_ref().unwrap().to_string(), one)).collect();
        assert_eq!(by.keys().collect::<Vec<_>>(), ["ada", "bob", "cyd", "dan", "eve"]);
        // A solution that does not count is marked as such.
        assert!(by.iter().all(|(name, one)| (one.standing == Standing::Fenced) == (name == "eve")));
        let ada = by["ada"];
        assert_eq!(ada.driver.as_deref(), Some("580.95"));
        assert_eq!(ada.library.as_ref().map(ToString::to_string).as_deref(), Some("cublas-130002"));
        assert_eq!(ada.collected_at.as_deref(), Some("2026-11-20T12:00:00Z"));
        // The tool's name is cut to the length of a line.
        assert_eq!(ada.tool.as_ref().map(String::len), Some(80));
        assert_eq!((ada.timings, ada.failures), (6, 0));
        assert!((by["eve"].best_us.unwrap() / ada.best_us.unwrap() - 0.5).abs() < 0.01);
        assert_eq!((by["bob"].driver.as_ref(), by["bob"].tool.as_ref()), (None, None));

        let sources = |query: &str| format!("/api/v1/problems/{id}/sources?{query}");
        app.get(&sources("hardware=nvidia-h100")).await.refusal(404, "not_found");
        app.get(&sources("hardware=NVIDIA")).await.refusal(400, "invalid");
        app.get("/api/v1/problems/0123456789abcdef/sources").await.refusal(404, "not_found");
        app.end().await;
    }
}

#[tokio::test]
async fn a_config_says_how_its_repeats_lay() {
    for app in TestApp::on_both("repeats").await {
        let id = mm(4096, 4096, 4096).id();
        // One solution does not state its repeats, and two do.
        app.receipt(columnar(&collected())).await;
        let path = format!("/api/v1/problems/{id}");
        let first: ProblemDetail = app.fetch(&path).await;
        assert!(first.configs.iter().all(|one| one.spread.is_none() && one.repeats.is_none()));
        app.receipt(columnar(&with_repeats(collected(), [0.01, 0.02], 30))).await;
        app.receipt(columnar(&with_repeats(collected(), [0.02, 0.04], 12))).await;
        let detail: ProblemDetail = app.fetch(&path).await;
        assert_eq!((detail.configs.len(), detail.solutions), (7, 3));
        let mut spreads: Vec<f64> = detail.configs.iter().map(|one| one.spread.unwrap()).collect();
        spreads.sort_by(f64::total_cmp);
        assert_eq!(spreads, [&[0.015][..], &[0.03; 6]].concat());
        assert!(detail.configs.iter().all(|one| one.repeats == Some(42) && one.timings == 3));
        app.end().await;
    }
}
