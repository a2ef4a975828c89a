//! Tests of sessions, and of how strangers and pages of other sites are kept out.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use diode_api::Account;
use diode_server::accounts::SignUps;

use crate::test_app::{PUBLIC_URL, Reply, TestApp};
use crate::visitor::{PASSWORD, Visitor};

#[tokio::test]
async fn the_cookie_is_for_this_server_alone() {
    let app = TestApp::public(SignUps::Open).await;
    Visitor::signed_up(&app, "ada").await;
    let reply = Visitor::new(&app).sign_in("ada", PASSWORD).await;
    let cookie = reply.header("set-cookie");
    for part in ["__Host-diode_session=", "; HttpOnly", "; SameSite=Lax", "; Secure", "; Path=/;"] {
        assert!(cookie.contains(part), "{part} in {cookie}");
    }
    // On loopback there is no TLS, so the cookie cannot need it.
    let local = TestApp::new().await;
    let reply = Visitor::new(&local).sign_up("ada", None).await;
    let cookie = reply.header("set-cookie");
    assert!(cookie.starts_with("diode_session=") && !cookie.contains("Secure"), "{cookie}");
    // The database does not have the secret.
    let secret = cookie.split(['=', ';']).nth(1).unwrap();
    let file = std::fs::read(local.folder.path().join("diode.db-wal")).unwrap();
    assert!(secret.len() == 64 && !file.windows(64).any(|window| window == secret.as_bytes()));
}

#[tokio::test]
async fn signing_out_ends_the_session() {
    let app = TestApp::public(SignUps::Open).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    let cookie = ada.cookie().unwrap();
    assert_eq!(ada.send("DELETE", "/api/v1/session", "").await.status, 204);
    assert_eq!(ada.cookie(), None);
    // A copy of the cookie no longer works.
    let thief = Visitor::new(&app);
    thief.plant(&cookie);
    thief.get("/api/v1/account").await.refusal(401, "unauthorized");
}

#[tokio::test]
async fn a_planted_cookie_does_not_become_a_session() {
    let app = TestApp::public(SignUps::Open).await;
    Visitor::signed_up(&app, "ada").await;
    let eve = Visitor::signed_up(&app, "eve").await;
    let planted = eve.cookie().unwrap();
    let ada = Visitor::new(&app);
    ada.plant(&planted);
    assert_eq!(ada.sign_in("ada", PASSWORD).await.status, 200);
    assert_ne!(ada.cookie().unwrap(), planted);
    assert_eq!(ada.get("/api/v1/account").await.json::<Account>().name.as_str(), "ada");
    // The session of the attacker who planted the cookie has ended, too.
    eve.get("/api/v1/account").await.refusal(401, "unauthorized");
}

#[tokio::test]
async fn pages_of_other_sites_change_nothing() {
    let app = TestApp::public(SignUps::Open).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    let cookie = ada.cookie().unwrap();
    let token = r#"{"name":"evil","scopes":["upload"]}"#;
    let send = async |path: &str, body: &str, headers: &[(&str, &str)]| -> Reply {
        let mut request =
            Request::post(path).header("host", "diode.example.org").header("content-type", "text/plain");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        app.send(request.body(Body::from(body.to_owned())).unwrap()).await
    };
    let cookie = ("cookie", cookie.as_str());
    for other in [
        vec![cookie, ("origin", "https://evil.example")],
        vec![cookie, ("origin", "null")],
        vec![cookie, ("sec-fetch-site", "cross-site")],
        vec![cookie, ("sec-fetch-site", "same-site")],
        vec![cookie, ("sec-fetch-site", "same-origin"), ("origin", "https://evil.example")],
        // An old browser, or a program that hides where its requests come from.
        vec![cookie],
    ] {
        for (path, body) in [
            ("/api/v1/tokens", token),
            ("/api/v1/uploads", "x"),
            ("/api/v1/jobs", "{}"),
            ("/admin/accounts/invite", ""),
            ("/account/tokens", "name=evil&upload=on"),
            ("/sign-out", ""),
        ] {
            send(path, body, &other).await.refusal(403, "forbidden");
        }
    }
    // Such a page cannot sign a browser in either, for instance to another account.
    let sign_in = format!(r#"{{"name":"ada","password":"{PASSWORD}"}}"#);
    send("/api/v1/session", &sign_in, &[("origin", "https://evil.example")]).await.refusal(403, "forbidden");
    let form = format!("name=ada&password={}", PASSWORD.replace(' ', "+"));
    send("/sign-in", &form, &[("sec-fetch-site", "cross-site")]).await.refusal(403, "forbidden");
    assert_eq!(ada.get("/api/v1/tokens").await.json::<Vec<serde_json::Value>>().len(), 0);
    assert_eq!(ada.get("/api/v1/account").await.status, 200);
    // Requests of the server's own pages must say that they are JSON.
    let own = [cookie, ("origin", PUBLIC_URL)];
    send("/api/v1/tokens", token, &own).await.refusal(415, "unsupported_media_type");
    assert_eq!(ada.post("/api/v1/tokens", token).await.status, 201);
}

#[tokio::test]
async fn a_wrong_name_and_a_wrong_password_are_told_apart_neither_by_text_nor_by_time() {
    let app = TestApp::public(SignUps::Open).await;
    Visitor::signed_up(&app, "ada").await;
    let visitor = Visitor::new(&app);
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    let mut said = Vec::new();
    for round in 0..6 {
        // Each unknown name is new, so that the limit is not reached.
        for (name, times) in [("ada".to_owned(), &mut known), (format!("nobody{round}"), &mut unknown)] {
            let began = Instant::now();
            let reply = visitor.sign_in(&name, "wrong horse battery staple").await;
            times.push(began.elapsed());
            said.push(reply.refusal(401, "unauthorized"));
        }
    }
    said.dedup();
    assert_eq!(said, ["the name or the password is wrong"]);
    let fastest = |times: &[Duration]| times.iter().min().unwrap().as_secs_f64();
    let ratio = fastest(&unknown) / fastest(&known);
    assert!((0.5..2.0).contains(&ratio), "known {known:?}, unknown {unknown:?}");
}

#[tokio::test]
async fn guessing_is_stopped_for_names_that_exist_and_for_others_alike() {
    for app in TestApp::public_on_both("guessing").await {
        Visitor::signed_up(&app, "ada").await;
        // Servers on one database count together.
        let other = app.replica().await;
        let visitors = [Visitor::new(&app), Visitor::new(&other)];
        for name in ["ada", "nobody"] {
            for visitor in visitors.iter().cycle().take(10) {
                visitor.sign_in(name, "wrong horse battery staple").await.refusal(401, "unauthorized");
            }
            for visitor in &visitors {
                let reply = visitor.sign_in(name, PASSWORD).await;
                let wait: u32 = reply.header("retry-after").parse().unwrap();
                assert!((1..=900).contains(&wait), "{wait}");
                assert_eq!(reply.header("ratelimit"), format!("\"sign-ins\";r=0;t={wait}"));
                let message = reply.refusal(429, "too_many");
                assert!(message.contains("15 minutes"), "{message}");
            }
        }
        // From another address the owner can still sign in, since the limit is per name and address. Behind a
        // proxy, the last address is the one that the proxy saw.
        let from = async |forwarded: &str| {
            let request = Request::post("/api/v1/session").header("x-forwarded-for", forwarded);
            let body = format!(r#"{{"name":"ada","password":"{PASSWORD}"}}"#);
            app.send(request.body(Body::from(body)).unwrap()).await.status
        };
        assert_eq!(from("203.0.113.7").await, 200);
        for _ in 0..11 {
            visitor_from(&app, "198.51.100.9, 203.0.113.8").await;
        }
        assert_eq!(from("1.1.1.1, 203.0.113.8").await, 429);
        assert_eq!(from("203.0.113.8, 203.0.113.9").await, 200);
        other.backend.store.close().await;
        app.end().await;
    }
}

async fn visitor_from(app: &TestApp, forwarded: &str) {
    let request = Request::post("/api/v1/session").header("x-forwarded-for", forwarded);
    let body = r#"{"name":"ada","password":"wrong horse battery staple"}"#;
    app.send(request.body(Body::from(body)).unwrap()).await;
}

#[tokio::test]
async fn a_disabled_account_does_nothing() {
    let app = TestApp::public(SignUps::Open).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    let account: Account = ada.get("/api/v1/account").await.json();
    let store = app.backend.store.as_ref();
    store.set_disabled(&account.id, true, false, diode_server::store::Now::read()).await.unwrap();
    ada.get("/api/v1/account").await.refusal(401, "unauthorized");
    let visitor = Visitor::new(&app);
    // Only a request with the right password learns that the account is disabled.
    visitor.sign_in("ada", "wrong horse battery staple").await.refusal(401, "unauthorized");
    assert!(visitor.sign_in("ada", PASSWORD).await.refusal(403, "forbidden").contains("disabled"));
}

#[tokio::test]
async fn forms_that_are_slow_or_lack_a_field_are_answered_by_a_page() {
    let app = TestApp::public(SignUps::Open).await;
    let form = |path: &str, body: Body| {
        let media = ("content-type", "application/x-www-form-urlencoded");
        app.sending(Request::post(path).header(media.0, media.1).body(body).unwrap())
    };
    let said = |reply: Reply, status: u16, what: &str| {
        let text = String::from_utf8(reply.body).unwrap();
        assert_eq!(reply.status, status, "{text}");
        assert!(text.contains("<h1>Form not understood") && text.contains(what), "{text}");
    };
    said(form("/sign-in", Body::from("name=ada")).await, 400, "missing field");
    said(form("/sign-in", Body::from("a".repeat(70_000))).await, 413, "exceeds 65536 bytes");
    let silent = Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    // A silent client gets ten seconds of grace.
    said(form("/sign-in", silent).await, 408, "too slowly");
}

#[tokio::test]
async fn the_pages_work_without_scripts() {
    let app = TestApp::public(SignUps::Open).await;
    let visitor = Visitor::new(&app);
    let page = visitor.page("/sign-up").await;
    assert!(page.contains("<form") && !page.contains("<script"), "{page}");
    let reply = visitor.submit("/sign-up", &[("name", "ada"), ("password", PASSWORD)]).await;
    assert_eq!((reply.status.as_u16(), reply.header("location")), (303, "/account"));
    let page = visitor.page("/account").await;
    assert!(page.contains("Signed in as <strong>ada</strong>"), "{page}");
    assert_eq!(visitor.submit("/sign-out", &[]).await.header("location"), "/sign-in");
    assert_eq!(visitor.get("/account").await.header("location"), "/sign-in?next=/account");
    let wrong = visitor.submit("/sign-in", &[("name", "\"><b>"), ("password", "x")]).await;
    let text = String::from_utf8(wrong.body.clone()).unwrap();
    assert!(wrong.status == 400 && !text.contains("<b>"), "{text}");
    assert!(wrong.header("content-type").starts_with("text/html"));
    for (next, to) in [("/device?code=BCDF-GHJK", "/device?code=BCDF-GHJK"), ("//evil.example", "/account")] {
        let fields = [("name", "ada"), ("password", PASSWORD), ("next", next)];
        assert_eq!(visitor.submit("/sign-in", &fields).await.header("location"), to);
    }
    let made = visitor.submit("/account/tokens", &[("name", "gpu01"), ("upload", "on")]).await;
    let text = String::from_utf8(made.body).unwrap();
    assert!(text.contains("diode_") && text.contains("shown this once"), "{text}");
    assert!(!visitor.page("/account").await.contains("diode_"));
}
