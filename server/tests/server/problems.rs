use diode_api::{ProblemDetail, ProblemView};
use diode_core::space::config_for;
use diode_core::{Config, Failure, FailureReason, Method, Op, Tile, TimeColumn};

use crate::samples::{collected, columnar, dataset, h200, mm};
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
async fn a_problem_of_very_many_configs_shows_the_fastest() {
    let app = TestApp::new().await;
    let mut many = dataset(h200(), &[mm(4096, 4096, 4096)], 1.1);
    let tile = |number: u32| Tile {
        group_m: 1 + number % 1024,
        ..Tile::new(64, 64, 32, 2 + number / 1024 % 6, [4, 8][number as usize / 6144])
    };
    let mut interned = |tile: Tile| many.configs.intern(config_for(Op::Mm, tile.for_k(4096)));
    let configs = (0..5_003).map(|number| interned(tile(number))).collect();
    let failed: Vec<_> = (6_001..11_002).map(|number| interned(tile(number))).collect();
    let solution = &mut many.solutions[0];
    solution.configs = configs;
    solution.times = TimeColumn::from_nanos((0..5_003).map(|i| 400_000 - i).collect()).unwrap();
    solution.failures =
        failed.into_iter().map(|config| Failure { config, reason: FailureReason::OutOfResources }).collect();
    app.receipt(columnar(&many)).await;
    let detail: ProblemDetail = app.fetch(&format!("/api/v1/problems/{}", mm(4096, 4096, 4096).id())).await;
    assert_eq!((detail.configs.len(), detail.more_configs), (5_000, 3));
    assert_eq!((detail.failures.len(), detail.more_failures), (5_000, 1));
    assert_eq!((detail.configs[0].us, detail.configs[4_999].us), (394.998, 399.997));
}

#[tokio::test]
async fn what_the_client_has_is_not_sent_again() {
    let app = TestApp::with_seven().await;
    let id = mm(4096, 4096, 4096).id();
    let of_problem = format!("/api/v1/problems/{id}");
    let of_uploads = "/api/v1/uploads";
    for path in [of_problem.as_str(), "/api/v1/hardware/nvidia-h200", "/api/v1/hardware", of_uploads] {
        let first = app.get(path).await;
        let tag = first.header("etag");
        assert!(tag.starts_with("W/") && first.header("cache-control") == "no-cache", "{path}: {tag}");
        let again = app.get_with(path, &[("if-none-match", tag)]).await;
        assert_eq!((again.status.as_u16(), again.body.len(), again.header("etag")), (304, 0, tag), "{path}");
        let varies = (first.header("vary"), again.header("vary"));
        assert_eq!(varies, ("accept-encoding", "accept-encoding"), "{path}");
        let own = app.get_with(path, &[("cookie", "theme=dark")]).await;
        // A problem's page, like those of boards, is the same for everybody.
        let caching = if path == of_problem { "no-cache" } else { "private, no-cache" };
        assert_eq!((own.header("cache-control"), own.header("etag")), (caching, tag));
    }
    let tag = app.get(&of_problem).await.header("etag").to_owned();
    app.receipt(columnar(&dataset(h200(), &[mm(4096, 4096, 4096)], 1.3))).await;
    assert_eq!(app.get_with(&of_problem, &[("if-none-match", &tag)]).await.status, 200);
    // The compressed and the plain file have the same tag, so the tag is weak.
    let compressed = app.get_with("/api/v1/datasets/nvidia-h200.json", &[("accept-encoding", "gzip")]).await;
    assert!(compressed.header("etag").starts_with("W/"), "{}", compressed.header("etag"));
    let plain = app.get("/api/v1/datasets/nvidia-h200.json").await;
    assert!(compressed.header("etag").ends_with(plain.header("etag")) && !plain.header("etag").is_empty());
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
