//! Tables of requests that must change nothing, on both databases: requests without a right, requests for
//! what belongs to others, and values that no filter expects. [`crate::hostile`] and [`crate::sign_in`] have
//! the requests of other sites.

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
const SCOPES: [&str; 4] = ["upload", "agent", "train", "admin"];

/// What stands for the parameters of a path.
const SOMETHING: [(&str, &str); 4] = [
    ("{slug}", "nvidia-h200"),
    ("{name}", "ada"),
    ("{problem}", "0123456789abcdef"),
    ("{digest}", "0123456789abcdef"),
];

/// Every operation of the API: its method, a path, and whether the description says that it may answer 401.
/// `/session` is left out: whoever asks there may be nobody, and DELETE revokes the token that asks.
async fn asking(app: &TestApp) -> Vec<(String, String, bool)> {
    let description: Value = app.fetch("/api/v1/openapi.json").await;
    let paths = description["paths"].as_object().unwrap();
    let mut operations = Vec::new();
    for (path, methods) in paths.iter().filter(|(path, _)| *path != "/api/v1/session") {
        let path = SOMETHING.iter().fold(path.clone(), |path, (name, value)| path.replace(name, value));
        let path = path.split('/').map(|part| if part.starts_with('{') { "0123456789abcdef" } else { part });
        let path = path.collect::<Vec<_>>().join("/");
        for (method, operation) in methods.as_object().unwrap() {
            let asks = operation["responses"].get("401").is_some();
            operations.push((method.to_uppercase(), path.clone(), asks));
        }
    }
    operations
}

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
    let mut rights = Vec::new();
    for app in TestApp::public_on_both("attack_rights").await {
        let root = administrator(&app).await;
        let ada = Visitor::signed_up(&app, "ada").await;
        assert_eq!(ada.post_bytes("/api/v1/uploads", columnar(&seven())).await.status, 201);
        let bearer = async |owner: &Visitor<'_>, scope: &str| {
            format!("Bearer {}", issue(owner, &format!(r#"["{scope}"]"#)).await.secret)
        };
        let (mut of_root, mut of_ada) = (Vec::new(), Vec::new());
        for scope in SCOPES {
            of_root.push((scope, bearer(&root, scope).await));
            if scope != "admin" {
                of_ada.push((scope, bearer(&ada, scope).await));
            }
        }
        let before = state(&app).await;
        let json = ("content-type", "application/json");
        let mut found = Vec::new();
        for (method, path, asks) in asking(&app).await {
            // No operation takes this body, so that a request with the right to something does nothing, either.
            let send = async |token: Option<&str>| {
                let authorization = token.map(|token| ("authorization", token));
                let headers: Vec<_> = [json].into_iter().chain(authorization).collect();
                send(&app, &method, &path, &headers, "x").await
            };
            let nobody = send(None).await;
            if !asks {
                assert_ne!(nobody.status, 401, "{method} {path} does not say that it needs an account");
                continue;
            }
            assert_eq!(nobody.header("www-authenticate"), "Bearer", "{method} {path}");
            nobody.refusal(401, "unauthorized");
            let mut admitted = Vec::new();
            for (scope, token) in &of_root {
                let reply = send(Some(token)).await;
                assert_ne!(reply.status, 401, "{method} {path}");
                match reply.status.as_u16() {
                    403 => drop(reply.refusal(403, "forbidden")),
                    _ => admitted.push(*scope),
                }
            }
            let right = match admitted[..] {
                [] => "a session",
                [scope] => scope,
                _ => "an account",
            };
            assert!([0, 1, SCOPES.len()].contains(&admitted.len()), "{method} {path}: {admitted:?}");
            for (scope, token) in of_ada.iter().filter(|(scope, _)| !admitted.contains(scope)) {
                assert_eq!(send(Some(token)).await.status, 403, "{method} {path} {scope}");
            }
            if right == "admin" {
                ada.send(&method, &path, "x").await.refusal(403, "forbidden");
            }
            found.push(format!("{method} {path}: {right}"));
        }
        assert_eq!(state(&app).await, before);
        app.end().await;
        // The order of a JSON object's keys depends on what else is compiled.
        found.sort();
        rights = found;
    }
    insta::assert_snapshot!(rights.join("\n"));
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
        assert_eq!(eve.delete_account(guess, "keep").await.status, 401);
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
