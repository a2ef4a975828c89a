//! Tables of requests that must change nothing, on both databases: requests without a right, requests for
//! what belongs to others, and values that no filter expects. [`crate::hostile`] and [`crate::sign_in`] have
//! the requests of other sites.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::Request;
use diode_api::{ApiError, IssuedToken, Job};
use diode_server::store::UploadFilter;
use serde_json::Value;

use crate::moderation::administrator;
use crate::samples::{columnar, seven};
use crate::test_app::{Reply, TestApp};
use crate::tokens::issue;
use crate::trust::seen;
use crate::visitor::Visitor;

const TRAIN: &str = r#"{"kind":"train","heuristic":"matmul","hardware":"nvidia-h200"}"#;
const REPORT: &str = r#"{"upload":"0123456789abcdef","reason":"it lies"}"#;
const MODERATE: &str = r#"{"action":"delete","subject":"anonymous","reason":"for fun"}"#;
const PUBLISH: &str = r#"{"action":"publish","model":"0123456789abcdef","reason":"for fun"}"#;
const TOKEN: &str = r#"{"name":"x","scopes":["upload"]}"#;

/// The method, the path, the body, and the scope that a token needs. For the scope `admin`, the account must
/// also be an administrator.
const BY_SCOPE: [(&str, &str, &str, &str); 27] = [
    ("POST", "/api/v1/uploads", "x", "upload"),
    ("POST", "/api/v1/reports", REPORT, "upload"),
    ("POST", "/api/v1/jobs", TRAIN, "train"),
    ("DELETE", "/api/v1/jobs/0123456789abcdef", "", "train"),
    ("POST", "/api/v1/agents", "{}", "agent"),
    ("POST", "/api/v1/agents/0123456789abcdef/leases", "{}", "agent"),
    ("POST", "/api/v1/agents/0123456789abcdef/leases/0123456789abcdef/renewal", "", "agent"),
    ("POST", "/api/v1/agents/0123456789abcdef/leases/0123456789abcdef/results", "x", "agent"),
    ("POST", "/api/v1/agents/0123456789abcdef/leases/0123456789abcdef/end", "{}", "agent"),
    ("POST", "/api/v1/hardware/nvidia-h200/wanted", "{}", "agent"),
    ("POST", "/api/v1/packs", "x", "admin"),
    ("DELETE", "/api/v1/packs/0123456789abcdef", "", "admin"),
    ("POST", "/api/v1/publications", PUBLISH, "admin"),
    ("POST", "/api/v1/moderation", MODERATE, "admin"),
    ("GET", "/api/v1/moderation", "", "admin"),
    ("GET", "/api/v1/reports", "", "admin"),
    ("POST", "/api/v1/invitations", "", "admin"),
    ("POST", "/api/v1/hardware-confirmations", "{}", "admin"),
    ("POST", "/api/v1/hardware-merges", "{}", "admin"),
    ("POST", "/api/v1/snapshots", "{}", "admin"),
    ("DELETE", "/api/v1/snapshots/matmul-nvidia-h200-1", "", "admin"),
    ("POST", "/api/v1/models", "x", "upload"),
    ("POST", "/api/v1/reviews", "{}", "admin"),
    ("GET", "/api/v1/reviews", "", "admin"),
    ("GET", "/api/v1/reviews/0123456789abcdef/download", "", "admin"),
    ("GET", "/api/v1/accounts/ada/identities", "", "admin"),
    ("DELETE", "/api/v1/accounts/ada/identities", "", "admin"),
];

/// Requests that need a session. A token is never enough.
const BY_SESSION: [(&str, &str, &str); 5] = [
    ("POST", "/api/v1/tokens", TOKEN),
    ("GET", "/api/v1/tokens", ""),
    ("DELETE", "/api/v1/tokens/0123456789abcdef", ""),
    ("DELETE", "/api/v1/account", r#"{"password":"correct horse battery staple","uploads":"delete"}"#),
    (
        "PUT",
        "/api/v1/account/password",
        r#"{"current":"correct horse battery staple","new":"mine now, for ever"}"#,
    ),
];

const SCOPES: [&str; 4] = ["upload", "agent", "train", "admin"];

async fn send(app: &TestApp, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let mut request = Request::builder().method(method).uri(path).header("host", "diode.example.org");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    app.send(request.body(Body::from(body.to_owned())).unwrap()).await
}

/// Everything that an attack could have changed.
async fn state(app: &TestApp) -> Vec<String> {
    let store = app.backend.store.as_ref();
    let accounts = store.accounts().await.unwrap();
    let mut state = seen(app).await;
    for account in &accounts {
        let tokens = store.tokens(&account.account.id).await.unwrap();
        // Leaves out the time of a token's last use, which changes with each request.
        state.extend(tokens.iter().map(|token| format!("{} {:?}", token.id, token.scopes)));
    }
    state.push(format!("{accounts:?}"));
    state.push(format!("{:?}", store.uploads(&UploadFilter::default(), 100).await.unwrap()));
    state.push(format!("{:?}", store.jobs(100).await.unwrap()));
    state.push(format!("{:?}", store.models(None, 100).await.unwrap()));
    state.push(format!("{:?}", store.agents(None, 100).await.unwrap()));
    state.push(format!("{:?}", store.packs(None, 100).await.unwrap()));
    state.push(format!("{:?}", store.blobs().await.unwrap()));
    state
}

#[tokio::test]
async fn nothing_is_done_without_the_right_to_it() {
    for app in TestApp::public_on_both("attack_rights").await {
        let root = administrator(&app).await;
        let ada = Visitor::signed_up(&app, "ada").await;
        assert_eq!(ada.post_bytes("/api/v1/uploads", columnar(&seven())).await.status, 201);
        let mut tokens = BTreeMap::new();
        for scope in ["upload", "agent", "train"] {
            let issued = issue(&ada, &format!(r#"["{scope}"]"#)).await;
            tokens.insert(scope, format!("Bearer {}", issued.secret));
        }
        // Tokens of an administrator can do no more than their scopes allow.
        let mut of_root = Vec::new();
        for scope in ["upload", "agent", "train"] {
            let issued = issue(&root, &format!(r#"["{scope}"]"#)).await;
            of_root.push((scope, format!("Bearer {}", issued.secret)));
        }
        let before = state(&app).await;
        let (json, mut sent) = (("content-type", "application/json"), 0);
        for (method, path, body, needed) in BY_SCOPE {
            let nobody = send(&app, method, path, &[json], body).await;
            assert_eq!(nobody.header("www-authenticate"), "Bearer", "{method} {path}");
            nobody.refusal(401, "unauthorized");
            for scope in SCOPES.into_iter().filter(|scope| *scope != needed) {
                let Some(token) = tokens.get(scope) else { continue };
                let reply = send(&app, method, path, &[json, ("authorization", token)], body).await;
                reply.refusal(403, "forbidden");
                sent += 1;
            }
            for (_, token) in of_root.iter().filter(|(scope, _)| *scope != needed) {
                let reply = send(&app, method, path, &[json, ("authorization", token)], body).await;
                reply.refusal(403, "forbidden");
                sent += 1;
            }
            if needed == "admin" {
                ada.send(method, path, body).await.refusal(403, "forbidden");
                sent += 1;
            }
            sent += 1;
        }
        for (method, path, body) in BY_SESSION {
            send(&app, method, path, &[json], body).await.refusal(401, "unauthorized");
            for token in tokens.values() {
                let reply = send(&app, method, path, &[json, ("authorization", token)], body).await;
                reply.refusal(403, "forbidden");
            }
            sent += 1 + tokens.len();
        }
        assert!(sent > 180, "{sent}");
        assert_eq!(state(&app).await, before);
        app.end().await;
    }
}

#[tokio::test]
async fn what_is_somebody_elses_stays_as_it_is() {
    for app in TestApp::public_on_both("attack_others").await {
        let (ada, eve) = (Visitor::signed_up(&app, "ada").await, Visitor::signed_up(&app, "eve").await);
        assert_eq!(ada.post_bytes("/api/v1/uploads", columnar(&seven())).await.status, 201);
        let token: IssuedToken = issue(&ada, r#"["upload","train"]"#).await;
        let job: Job = ada.post("/api/v1/jobs", TRAIN).await.json();
        let before = state(&app).await;
        let own = issue(&eve, r#"["upload","agent","train"]"#).await;
        let bearer = format!("Bearer {}", own.secret);
        let jobs = format!("/api/v1/jobs/{}", job.id);
        let message = eve.send("DELETE", &jobs, "").await.refusal(403, "forbidden");
        assert!(message.contains("administrator"), "{message}");
        send(&app, "DELETE", &jobs, &[("authorization", &bearer)], "").await.refusal(403, "forbidden");
        let tokens = format!("/api/v1/tokens/{}", token.token.id);
        eve.send("DELETE", &tokens, "").await.refusal(404, "not_found");
        let guess = r#"{"password":"wrong horse battery staple","uploads":"delete"}"#;
        eve.send("DELETE", "/api/v1/account", guess).await.refusal(401, "unauthorized");
        eve.send("DELETE", &format!("/api/v1/tokens/{}", own.token.id), "").await;
        assert_eq!(state(&app).await, before);
        // The owner may cancel the job.
        assert_eq!(ada.send("DELETE", &jobs, "").await.status, 200);
        app.end().await;
    }
}

/// Values that are tried for each parameter.
const VALUES: [&str; 7] = [
    "%27%20OR%20%271%27=%271",
    "1);DROP%20TABLE%20uploads;--",
    "%22%7D%5D%00",
    "..%2f..%2f..%2fetc%2fpasswd",
    "%E2%80%AEevil%3Cscript%3E",
    "18446744073709551616",
    "-1e309",
];

/// The paths, each with the names of its query parameters.
fn operations(description: &Value, method: &str) -> Vec<(String, Vec<String>)> {
    let name_in = |parameter: &Value, place: &str| {
        (parameter["in"] == place).then(|| parameter["name"].as_str().unwrap().to_owned())
    };
    let of = |(path, operations): (&String, &Value)| {
        let operation = operations.get(method)?;
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        Some((path.clone(), parameters.iter().filter_map(|one| name_in(one, "query")).collect()))
    };
    description["paths"].as_object().unwrap().iter().filter_map(of).collect()
}

fn assert_refused(what: &str, reply: &Reply) {
    let status = reply.status.as_u16();
    assert!([400, 401, 403, 404, 405, 415, 422].contains(&status), "{what}: {status}");
    let error: ApiError = reply.json();
    assert!(!error.code.is_empty() && !error.message.to_lowercase().contains("sql"), "{what}: {error:?}");
}

#[tokio::test]
async fn no_parameter_reaches_the_database_as_a_command() {
    for app in TestApp::public_unlimited("attack_values").await {
        let ada = Visitor::signed_up(&app, "ada").await;
        assert_eq!(ada.post_bytes("/api/v1/uploads", columnar(&seven())).await.status, 201);
        let before = state(&app).await;
        let description: Value = app.fetch("/api/v1/openapi.json").await;
        let mut sent = 0;
        for (template, names) in operations(&description, "get") {
            let path = template.replace("{slug}", "nvidia-h200").replace("{file}", "nvidia-h200.json");
            if !path.contains('{') {
                for (name, value) in names.iter().flat_map(|name| VALUES.map(|value| (name, value))) {
                    let what = format!("{path}?{name}={value}");
                    let reply = ada.get(&what).await;
                    // A parameter may accept any text, but then the answer is empty.
                    if reply.status != 200 || !reply.body.starts_with(b"[]") {
                        assert_refused(&what, &reply);
                    }
                    sent += 1;
                }
                let twice = app.get(&format!("{path}?token=diode_{}", "0".repeat(64))).await;
                assert_refused(&path, &twice);
            }
            if template.contains('{') {
                let long = "x".repeat(8000);
                for value in VALUES.into_iter().chain([long.as_str(), "%ff", "%2e%2e", "con", "%5c%5c"]) {
                    let what = replaced(&template, value);
                    assert_refused(&what, &ada.get(&what).await);
                    sent += 1;
                }
            }
        }
        for method in ["post", "delete", "put"] {
            for (template, _) in
                operations(&description, method).into_iter().filter(|(path, _)| path.contains('{'))
            {
                for value in VALUES.into_iter().chain(["%ff"]) {
                    let what = replaced(&template, value);
                    assert_refused(&what, &ada.send(&method.to_uppercase(), &what, "{}").await);
                    sent += 1;
                }
            }
        }
        assert!(sent > 400, "{sent}");
        assert_eq!(state(&app).await, before);
        app.end().await;
    }
}

fn replaced(template: &str, value: &str) -> String {
    let segment = |part: &str| if part.starts_with('{') { value.to_owned() } else { part.to_owned() };
    template.split('/').map(segment).collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn bodies_that_nobody_means_are_refused() {
    for app in TestApp::public_on_both("attack_bodies").await {
        let ada = Visitor::signed_up(&app, "ada").await;
        assert_eq!(ada.post_bytes("/api/v1/uploads", columnar(&seven())).await.status, 201);
        let before = state(&app).await;
        let deep = "[".repeat(20_000);
        let long = format!(r#"{{"name":"{}"}}"#, "x".repeat(64 * 1024));
        let number = format!(
            r#"{{"kind":"train","heuristic":"matmul","hardware":"nvidia-h200","seed":1{}}}"#,
            "0".repeat(400)
        );
        let description: Value = app.fetch("/api/v1/openapi.json").await;
        let mut sent = 0;
        for method in ["post", "put", "delete"] {
            for (template, _) in operations(&description, method) {
                if description["paths"][&template][method].get("requestBody").is_none() {
                    continue;
                }
                let path = replaced(&template, "0123456789abcdef");
                for body in ["", "{", "null", "[]", "\u{0}", r#"{"__proto__":{}}"#, &deep, &long, &number] {
                    let reply = ada.send(&method.to_uppercase(), &path, body).await;
                    if reply.status == 413 {
                        reply.refusal(413, "too_large");
                    } else {
                        assert_refused(&format!("{method} {path} {body:.20}"), &reply);
                    }
                    sent += 1;
                }
            }
        }
        assert!(sent > 100, "{sent}");
        assert_eq!(state(&app).await, before);
        app.end().await;
    }
}
