//! Tests of what the server says about problems that somebody may want measured.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use diode_api::{AGENT_KEY, Measuring, MeasuringState, Purpose};
use diode_core::{DType, Op, Problem, ProblemFields, Scaling};
use diode_server::store::{AGENT_LEASE, Now};

use crate::agents::{h200_registration, register, take};
use crate::samples::{columnar, dataset, h200, mm, problem};
use crate::test_app::{Reply, TestApp};

async fn post(app: &TestApp, path: &str, body: serde_json::Value) -> Reply {
    let request = Request::post(format!("/api/v1{path}")).header(AGENT_KEY, "0123456789abcdef");
    app.send(request.body(Body::from(body.to_string())).unwrap()).await
}

async fn told(app: &TestApp, problems: &[Problem]) -> Vec<(MeasuringState, Option<Purpose>, Option<String>)> {
    let ids: Vec<String> = problems.iter().map(|problem| problem.id().to_string()).collect();
    let path = format!("/api/v1/hardware/nvidia-h200/wanted?problems={}", ids.join(","));
    let told: Vec<Measuring> = app.fetch(&path).await;
    assert_eq!(told.iter().map(|one| one.problem.to_string()).collect::<Vec<_>>(), ids, "in the order asked");
    told.into_iter().map(|one| (one.state, one.purpose, one.reason)).collect()
}

#[tokio::test]
async fn a_problem_is_followed_from_a_wish_to_its_measurement() {
    for app in TestApp::on_both("measuring").await {
        let (measured, wanted, other) = (mm(24, 40, 40), mm(24, 40, 48), mm(24, 40, 56));
        let bytes = columnar(&dataset(h200(), std::slice::from_ref(&measured), 1.0));
        assert_eq!(app.upload(bytes).await.status, 201);
        let all = [measured.clone(), wanted.clone(), other.clone(), wanted.clone()];
        let unasked = (MeasuringState::Unasked, None, None);
        let is_measured = (MeasuringState::Measured, None, None);
        assert_eq!(
            told(&app, &all).await,
            [is_measured.clone(), unasked.clone(), unasked.clone(), unasked.clone()]
        );

        let body = serde_json::json!({ "problems": [measured, wanted] });
        assert_eq!(post(&app, "/hardware/nvidia-h200/wanted", body).await.status, 202);
        let waits = (MeasuringState::Waiting, Some(Purpose::Wanted), None);
        assert_eq!(told(&app, &all).await, [is_measured, waits.clone(), unasked, waits]);

        // A problem that an agent gets is leased. It is refused once the agent says that nobody can measure
        // it.
        let agent = register(&app, &h200_registration()).await;
        let lease = take(&app, &agent).await;
        let first = lease.work[0].problem.clone();
        let leased = told(&app, std::slice::from_ref(&first)).await;
        assert_eq!(leased, [(MeasuringState::Leased, Some(lease.work[0].purpose), None)]);
        // If the agent never comes back, the problem waits again, even before another agent asks for work.
        let later = Now(Now::read().0 + AGENT_LEASE + Duration::from_secs(1));
        let told_later = app.backend.store.measuring(&h200().slug, &[first.id()], later).await.unwrap();
        assert_eq!(told_later[0].state, MeasuringState::Waiting);
        let refused = serde_json::json!({
            "refused": [{ "problem": first.id(), "reason": "no such kernel", "reach": "hardware" }]
        });
        let end = format!("/agents/{}/leases/{}/end", agent.id, lease.id);
        assert_eq!(post(&app, &end, refused).await.status, 200);
        let now = told(&app, &[first]).await;
        assert_eq!((now[0].0, now[0].2.as_deref()), (MeasuringState::Refused, Some("no such kernel")));
        app.end().await;
    }
}

#[tokio::test]
async fn what_is_asked_about_has_an_id() {
    let app = TestApp::with_seven().await;
    let path = "/api/v1/hardware/nvidia-h200/wanted";
    for query in ["", "?problems=", "?problems=x", "?problem=0123456789abcdef"] {
        app.get(&format!("{path}{query}")).await.refusal(400, "invalid");
    }
    app.get("/api/v1/hardware/nvidia-z9/wanted?problems=0123456789abcdef").await.refusal(404, "not_found");
}

#[tokio::test]
async fn what_no_device_can_compute_is_refused() {
    for app in TestApp::on_both("uncomputable").await {
        let bytes = columnar(&dataset(h200(), &[mm(24, 40, 40)], 1.0));
        assert_eq!(app.upload(bytes).await.status, 201);
        let (small, int32) = (mm(24, 40, 48), DType::Int32);
        let plain = small.clone().into_fields();
        let of = |fields| Problem::new(fields).unwrap();
        let scaled = ProblemFields::plain(Op::ScaledMm, 1, 64, 64, 64, DType::Float8E4M3Fnuz);
        let refused = [
            (
                problem(Op::Mm, 64, 64, 64, DType::Bool),
                "kernels exist for float16, bfloat16 and float32, not for bool",
            ),
            (of(ProblemFields { out_dtype: int32, ..plain.clone() }), "not for int32"),
            (of(ProblemFields { b_dtype: DType::Float32, ..plain }), "kernels exist for one type throughout"),
            (
                of(ProblemFields { scaling: Scaling::Row, out_dtype: DType::BFloat16, ..scaled }),
                "does not multiply",
            ),
        ];
        for (problem, why) in refused {
            let body = serde_json::json!({ "problems": [small, problem] });
            let refusal = post(&app, "/hardware/nvidia-h200/wanted", body).await.refusal(400, "invalid");
            assert!(refusal.contains(why), "{refusal}");
            // The refused request has asked for none of its problems.
            let unasked = (MeasuringState::Unasked, None, None);
            assert_eq!(told(&app, &[small.clone(), problem]).await, [unasked.clone(), unasked]);
        }
        app.end().await;
    }
}

#[tokio::test]
async fn what_no_device_can_hold_is_refused() {
    let app = TestApp::with_seven().await;
    let (small, large) = (mm(24, 40, 48), mm(1_000_000_000, 4096, 4096));
    let body = serde_json::json!({ "problems": [small, large] });
    let refusal = post(&app, "/hardware/nvidia-h200/wanted", body).await.refusal(400, "invalid");
    assert!(refusal.contains("needs 16.4 TB"), "{refusal}");
    // The refused request has asked for none of its problems.
    assert_eq!(told(&app, &[small]).await, [(MeasuringState::Unasked, None, None)]);
}
