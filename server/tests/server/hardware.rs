use diode_api::{HardwareSummary, ProblemPoint};
use diode_core::{Comparison, DType, Method, Op};

use crate::samples::{collected, columnar};
use crate::test_app::TestApp;

#[tokio::test]
async fn summaries_say_what_there_is() {
    let app = TestApp::with_seven().await;
    let all: Vec<HardwareSummary> = app.fetch("/api/v1/hardware").await;
    let one: HardwareSummary = app.fetch("/api/v1/hardware/nvidia-h200").await;
    assert_eq!(all, std::slice::from_ref(&one));
    assert_eq!(one.hardware, crate::samples::h200());
    assert_eq!((one.problems, one.solutions, one.timings, one.models), (7, 7, 42, 0));
    assert_eq!(one.ops, [Op::Mm, Op::Addmm]);
    assert_eq!(one.dtypes, [DType::Float16, DType::BFloat16]);
    let share = one.median_roofline_share.unwrap();
    assert!((0.1..1.0).contains(&share), "{share}");
    assert!(one.gain_over_defaults.unwrap() >= 1.0);
    // The library was not timed, so all figures are Triton's.
    assert_eq!(one.triton_gain_over_defaults, one.gain_over_defaults);
    assert_eq!((one.method, one.comparison), (Some(Method::Unspecified), Comparison::default()));
    assert!(one.best_tflops.unwrap() < 990.0);
    assert!(one.updated_at.is_some());
}

#[tokio::test]
async fn figures_are_of_one_method_and_tell_triton_from_the_library() {
    let app = TestApp::with_seven().await;
    app.receipt(columnar(&collected())).await;
    let one: HardwareSummary = app.fetch("/api/v1/hardware/nvidia-h200").await;
    assert_eq!(one.method, Some(Method::MEDIAN_COLD_EVENT));
    assert_eq!((one.comparison.problems, one.comparison.wins), (1, 0));
    let (all, triton) = (one.gain_over_defaults.unwrap(), one.triton_gain_over_defaults.unwrap());
    assert!((all * one.comparison.ratio.unwrap() - triton).abs() < 1e-9, "{all} {triton}");
}

#[tokio::test]
async fn points_lie_under_the_roof() {
    let app = TestApp::with_seven().await;
    let points: Vec<ProblemPoint> = app.fetch("/api/v1/hardware/nvidia-h200/problems").await;
    assert_eq!(points.len(), 7);
    let square = points.iter().find(|p| p.dims == "4096×4096×4096").unwrap();
    assert!((square.intensity - 4096.0 / 3.0).abs() < 1e-6);
    assert!(points.iter().all(|p| p.tflops > 0.0 && p.tflops < 990.0));
    assert!(points.iter().all(|p| p.triton_us == Some(p.best_us) && p.triton_over_library.is_none()));
    for (filter, expected) in [("op=addmm", 1), ("min_m=1024&max_m=2048", 2), ("method=median-cold-event", 0)]
    {
        let path = format!("/api/v1/hardware/nvidia-h200/problems?{filter}");
        assert_eq!(app.fetch::<Vec<ProblemPoint>>(&path).await.len(), expected, "{filter}");
    }
    let refused = app.get("/api/v1/hardware/nvidia-h200/problems?sort=time").await;
    assert!(refused.refusal(400, "invalid").contains("sort"));
}

#[tokio::test]
async fn unknown_hardware_is_not_found() {
    let app = TestApp::with_seven().await;
    for path in ["nvidia-z1", "nvidia-z1/leaderboard", "nvidia-z1/problems", "NOT%20A%20SLUG"] {
        let message = app.get(&format!("/api/v1/hardware/{path}")).await.refusal(404, "not_found");
        assert!(message.contains("/api/v1/hardware"), "{message}");
    }
}
