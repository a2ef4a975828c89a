//! Tests of API tokens, and of the programs that ask for them.

use axum::body::Body;
use axum::http::Request;
use diode_api::{Account, DeviceCode, IssuedToken, Token};
use diode_server::accounts::SignUps;

use crate::samples::{columnar, seven};
use crate::test_app::{Reply, TestApp};
use crate::visitor::Visitor;

pub(crate) async fn with_token(
    app: &TestApp,
    method: &str,
    path: &str,
    authorization: &str,
    body: Vec<u8>,
) -> Reply {
    let request = Request::builder().method(method).uri(path).header("authorization", authorization);
    app.send(request.body(Body::from(body)).unwrap()).await
}

pub(crate) async fn issue(visitor: &Visitor<'_>, scopes: &str) -> IssuedToken {
    let reply = visitor.post("/api/v1/tokens", &format!(r#"{{"name":"gpu01","scopes":{scopes}}}"#)).await;
    assert_eq!(reply.status, 201, "{}", String::from_utf8_lossy(&reply.body));
    reply.json()
}

const TRAIN: &[u8] = br#"{"kind":"train","heuristic":"matmul","hardware":"nvidia-h200"}"#;

#[tokio::test]
async fn a_token_does_what_its_scopes_say_and_no_more() {
    let app = TestApp::public(SignUps::Open).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    let (upload, train) = (issue(&ada, r#"["upload"]"#).await, issue(&ada, r#"["train"]"#).await);
    assert!(upload.secret.starts_with("diode_") && upload.secret.len() == 70, "{}", upload.secret);
    let bearer = |issued: &IssuedToken| format!("Bearer {}", issued.secret);
    let (upload_by, train_by) = (bearer(&upload), bearer(&train));
    let bytes = columnar(&seven());

    let message =
        with_token(&app, "POST", "/api/v1/uploads", &train_by, bytes.clone()).await.refusal(403, "forbidden");
    assert!(message.contains("for train") && message.contains("upload"), "{message}");
    let reply = with_token(&app, "POST", "/api/v1/jobs", &upload_by, TRAIN.to_vec()).await;
    reply.refusal(403, "forbidden");
    assert_eq!(with_token(&app, "POST", "/api/v1/uploads", &upload_by, bytes).await.status, 201);
    assert_eq!(with_token(&app, "POST", "/api/v1/jobs", &train_by, TRAIN.to_vec()).await.status, 202);

    // The token shows its account, but it makes no tokens, changes no password and deletes nothing.
    let account: Account = with_token(&app, "GET", "/api/v1/account", &upload_by, vec![]).await.json();
    assert_eq!(account.name.as_str(), "ada");
    for (method, path) in [
        ("POST", "/api/v1/tokens"),
        ("GET", "/api/v1/tokens"),
        ("POST", "/account/delete"),
        ("POST", "/account/password"),
    ] {
        with_token(&app, method, path, &upload_by, b"{}".to_vec()).await.refusal(403, "forbidden");
    }
    let used: Vec<Token> = ada.get("/api/v1/tokens").await.json();
    assert!(used.iter().all(|token| token.used_at.is_some()), "{used:?}");
}

#[tokio::test]
async fn what_is_no_working_token_is_refused_everywhere() {
    let app = TestApp::public(SignUps::Open).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    let revoked = issue(&ada, r#"["upload"]"#).await;
    assert_eq!(ada.send("DELETE", &format!("/api/v1/tokens/{}", revoked.token.id), "").await.status, 204);
    let expired = issue(&ada, r#"["upload"]"#).await;
    let options = app.data.database_url.parse::<sqlx::sqlite::SqliteConnectOptions>().unwrap();
    let raw = sqlx::SqlitePool::connect_with(options).await.unwrap();
    sqlx::query("UPDATE tokens SET expires = 1").execute(&raw).await.unwrap();
    let bytes = columnar(&seven());
    let send = async |app: &TestApp, given: &str| {
        with_token(app, "POST", "/api/v1/uploads", given, bytes.clone()).await
    };
    // A token that does not work is refused even where uploads need no account: its owner meant to upload by
    // name.
    let local = TestApp::new().await;
    for given in [
        format!("Bearer {}", revoked.secret),
        format!("Bearer {}", expired.secret),
        format!("Bearer diode_{}", "0".repeat(64)),
        "Bearer ".to_owned(),
        "Bearer".to_owned(),
        "Basic YWRhOmFkYQ==".to_owned(),
        expired.secret.clone(),
    ] {
        for app in [&app, &local] {
            let reply = send(app, &given).await;
            assert_eq!(reply.header("www-authenticate"), "Bearer", "{given}");
            reply.refusal(401, "unauthorized");
        }
    }
    let reply = app.upload(bytes.clone()).await;
    assert!(reply.refusal(401, "unauthorized").contains("diode login"));
    app.ask(&String::from_utf8_lossy(TRAIN)).await.refusal(401, "unauthorized");
    assert_eq!(local.upload(bytes.clone()).await.status, 201);
}

#[tokio::test]
async fn a_token_in_a_url_is_refused() {
    let app = TestApp::public(SignUps::Open).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    let issued = issue(&ada, r#"["upload"]"#).await;
    for parameter in ["token", "access_token", "api_key"] {
        let path = format!("/api/v1/uploads?{parameter}={}", issued.secret);
        let reply = app.send(Request::post(&path).body(Body::from(columnar(&seven()))).unwrap()).await;
        let message = reply.refusal(400, "invalid");
        assert!(message.contains("revoke") && !message.contains(&issued.secret), "{message}");
    }
}

#[tokio::test]
async fn tokens_that_make_no_sense_are_not_made() {
    let app = TestApp::public(SignUps::Open).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    for body in [
        r#"{"name":"","scopes":["upload"]}"#,
        r#"{"name":"x","scopes":[]}"#,
        r#"{"name":"x","scopes":["everything"]}"#,
        r#"{"name":"x","scopes":["upload","upload"]}"#,
        r#"{"name":"x","scopes":["upload"],"days":0}"#,
        r#"{"name":"x","scopes":["upload"],"days":366}"#,
        r#"{"name":"a\u202eb","scopes":["upload"]}"#,
    ] {
        ada.post("/api/v1/tokens", body).await.refusal(400, "invalid");
    }
    // An account cannot give a token a right that it does not have itself.
    ada.post("/api/v1/tokens", r#"{"name":"x","scopes":["admin"]}"#).await.refusal(403, "forbidden");
    assert_eq!(ada.get("/api/v1/tokens").await.json::<Vec<Token>>(), []);
}

#[tokio::test]
async fn a_program_gets_its_token_once_its_user_allows_it() {
    let app = TestApp::public(SignUps::Open).await;
    let program =
        async |path: &str, body: String| app.send(Request::post(path).body(Body::from(body)).unwrap()).await;
    let ask = r#"{"name":"diode on gpu01","scopes":["upload"]}"#.to_owned();
    let begin = async || program("/api/v1/devices", ask.clone()).await.json::<DeviceCode>();
    let poll = async |code: &DeviceCode| {
        program("/api/v1/devices/token", format!(r#"{{"device_code":"{}"}}"#, code.device_code)).await
    };
    let code = begin().await;
    poll(&code).await.refusal(400, "authorization_pending");
    let path = code.verification_uri.strip_prefix(&app.policy.public_url).unwrap().to_owned();
    let stranger = Visitor::new(&app);
    let to = stranger.get(&path).await;
    assert_eq!(to.header("location"), format!("/sign-in?next=/device%3Fcode%3D{}", code.user_code));
    let ada = Visitor::signed_up(&app, "ada").await;
    let page = ada.page(&path).await;
    assert!(page.contains("diode on gpu01") && page.contains(&code.user_code), "{page}");
    // Opening the page allows nothing, and a token cannot allow another program.
    poll(&code).await.refusal(400, "authorization_pending");
    let answer = async |code: &DeviceCode, answer: &str| {
        ada.submit("/device", &[("code", &code.user_code.to_lowercase()), ("answer", answer)]).await.status
    };
    assert_eq!(answer(&code, "maybe").await, 400);
    assert_eq!(answer(&code, "allow").await, 200);
    assert_eq!(answer(&code, "allow").await, 404, "answered already");
    let issued: IssuedToken = poll(&code).await.json();
    assert_eq!((issued.token.name.as_str(), issued.token.scopes.len()), ("diode on gpu01", 1));
    poll(&code).await.refusal(403, "forbidden");
    let bearer = format!("Bearer {}", issued.secret);
    assert_eq!(with_token(&app, "POST", "/api/v1/uploads", &bearer, columnar(&seven())).await.status, 201);
    // This is what `diode logout` sends.
    assert_eq!(with_token(&app, "DELETE", "/api/v1/session", &bearer, vec![]).await.status, 204);
    with_token(&app, "GET", "/api/v1/account", &bearer, vec![]).await.refusal(401, "unauthorized");

    let refused = begin().await;
    assert_eq!(answer(&refused, "refuse").await, 200);
    poll(&refused).await.refusal(403, "forbidden");
    program("/api/v1/devices/token", r#"{"device_code":"guess"}"#.to_owned()).await.refusal(403, "forbidden");
    program("/api/v1/devices", r#"{"name":"","scopes":["upload"]}"#.to_owned()).await.refusal(400, "invalid");
}

#[tokio::test]
async fn codes_cannot_be_guessed() {
    let app = TestApp::public(SignUps::Open).await;
    let eve = Visitor::signed_up(&app, "eve").await;
    for _ in 0..20 {
        assert_eq!(eve.get("/device?code=BBBB-BBBB").await.status, 404);
    }
    assert_eq!(eve.get("/device?code=BBBB-BBBB").await.status, 429);
}
