use diode_api::NearestProblem;
use diode_core::{DType, Op};

use crate::samples::{collected, columnar, dataset, h200, mm, problem};
use crate::test_app::TestApp;

const NEAREST: &str = "/api/v1/hardware/nvidia-h200/nearest?method=unspecified";

#[tokio::test]
async fn the_nearest_come_first_on_both_databases() {
    for app in TestApp::on_both("nearest").await {
        let mut problems = vec![problem(Op::Mm, 4096, 4096, 4096, DType::Float32)];
        // More problems than the query reads in one direction.
        problems.extend((1..=300).map(|step| mm(4096, 64, 64 * step)));
        problems.extend(
            [(4096, 4096, 4096), (2048, 4096, 4096), (4096, 2048, 4096), (8192, 8192, 8192)]
                .map(|(m, n, k)| mm(m, n, k)),
        );
        app.receipt(columnar(&dataset(h200(), &problems, 1.0))).await;
        let near: Vec<NearestProblem> = app.fetch(&format!("{NEAREST}&m=4096&n=4096&k=4000&limit=3")).await;
        let dims: Vec<String> = near.iter().map(|near| near.problem.dims()).collect();
        assert_eq!(dims[0], "4096×4096×4096");
        assert!(near.len() == 3 && near.is_sorted_by(|a, b| a.distance <= b.distance), "{dims:?}");
        assert!(near.iter().all(|near| near.triton.is_some() && near.problem.a_dtype == DType::BFloat16));
        let exact: Vec<NearestProblem> = app.fetch(&format!("{NEAREST}&m=2048&n=4096&k=4096")).await;
        assert_eq!(
            (exact.len(), exact[0].distance, exact[0].problem_id.clone()),
            (5, 0.0, mm(2048, 4096, 4096).id())
        );
        let none: Vec<NearestProblem> = app.fetch(&format!("{NEAREST}&m=8&n=8&k=8&dtype=float64")).await;
        assert_eq!(none, []);
        app.end().await;
    }
}

#[tokio::test]
async fn unless_it_is_named_the_method_is_that_of_the_figures() {
    let app = TestApp::with_seven().await;
    app.receipt(columnar(&collected())).await;
    let path = "/api/v1/hardware/nvidia-h200/nearest?m=16&n=16&k=16";
    let near: Vec<NearestProblem> = app.fetch(path).await;
    let [near] = near.as_slice() else { panic!("{near:?}") };
    assert_eq!(near.library.as_ref().unwrap().us, 150.0);
    for (query, name) in [
        ("n=1&k=1", "m: got nothing"),
        ("m=0&n=1&k=1", "m"),
        ("m=1&n=1&k=1&limit=21", "limit"),
        ("m=1&n=1&k=1&b=2", "b"),
    ] {
        let path = format!("/api/v1/hardware/nvidia-h200/nearest?{query}");
        let message = app.get(&path).await.refusal(400, "invalid").to_lowercase();
        assert!(message.contains(name), "{query}: {message}");
    }
}
