use diode_core::api::{ProblemDetail, ProblemView};
use diode_core::{Config, FailureReason, Method};

use crate::samples::{collected, columnar, mm};
use crate::test_app::TestApp;

#[tokio::test]
async fn a_problem_shows_every_config_and_its_views() {
    let app = TestApp::with_seven().await;
    app.receipt(columnar(&collected())).await;
    let id = mm(4096, 4096, 4096).id();

    let first: ProblemDetail = app.fetch(&format!("/api/v1/problems/{id}")).await;
    assert_eq!(first.method, Method::MEDIAN_COLD_EVENT);
    let views: Vec<_> = [Method::MEDIAN_COLD_EVENT, Method::Unspecified]
        .map(|method| ProblemView { hardware: first.hardware.slug.clone(), method })
        .into();
    assert_eq!(first.views, views);
    assert_eq!((first.configs.len(), first.solutions), (7, 1));
    assert_eq!(first.configs[0].config, Config::Library);
    assert_eq!(first.configs[0].us, 150.0);
    assert!(first.configs.is_sorted_by(|a, b| a.us <= b.us));
    assert_eq!(first.failures.len(), 1);
    assert_eq!(first.failures[0].reason, FailureReason::OutOfResources);
    assert!((first.roofline_us.unwrap() - 138.8).abs() < 0.1);

    let (triton, library) = (first.triton.unwrap(), first.library.unwrap());
    assert_eq!((triton.config, triton.us), (first.configs[1].config, first.configs[1].us));
    assert_eq!((library.config, library.us), (Config::Library, 150.0));
    assert_eq!(first.triton_over_library, Some(150.0 / triton.us));

    let other: ProblemDetail = app.fetch(&format!("/api/v1/problems/{id}?method=unspecified")).await;
    assert_eq!((other.method, other.configs.len(), other.failures.len()), (Method::Unspecified, 6, 0));
}

#[tokio::test]
async fn what_was_not_measured_is_not_found() {
    let app = TestApp::with_seven().await;
    let id = mm(4096, 4096, 4096).id();
    for path in [
        "0123456789abcdef".to_owned(),
        "x".to_owned(),
        format!("{id}?hardware=nvidia-h100"),
        format!("{id}?method=median-cold-event"),
    ] {
        app.get(&format!("/api/v1/problems/{path}")).await.refusal(404, "not_found");
    }
    app.get(&format!("/api/v1/problems/{id}?hardware=NVIDIA")).await.refusal(400, "invalid");
}
