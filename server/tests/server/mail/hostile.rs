//! Tests of what strangers learn from the page for lost passwords, and of how often they may ask.

use axum::body::Body;
use axum::http::Request;
use diode_api::Account;
use diode_server::accounts::SignUps;
use diode_server::mail::Tries;
use diode_server::store::Now;

use super::mailbox::Mailbox;
use super::{ask, give, text, with_address};
use crate::test_app::{PUBLIC_URL, Reply, TestApp};
use crate::visitor::Visitor;

/// Asks from the address `peer`.
async fn ask_from(app: &TestApp, peer: &str, who: &str) -> Reply {
    let request = Request::post("/password/forgotten")
        .header("host", PUBLIC_URL.strip_prefix("https://").unwrap())
        .header("origin", PUBLIC_URL)
        .header("sec-fetch-site", "same-origin")
        .header("x-forwarded-for", peer)
        .header("content-type", "application/x-www-form-urlencoded");
    app.send(request.body(Body::from(format!("who={who}"))).unwrap()).await
}

#[tokio::test]
async fn nobody_learns_who_has_an_account_or_an_address() {
    for app in TestApp::public_on_both("mail_enumeration").await {
        let mailbox = Mailbox::new();
        let app = app.with_mails(mailbox.server(), Tries::default());
        with_address(&app, &mailbox, "ada", "ada@example.org").await;
        Visitor::signed_up(&app, "bob").await;
        let eve = with_address(&app, &mailbox, "eve", "eve@example.org").await;
        let account: Account = eve.get("/api/v1/account").await.json();
        app.backend.store.set_disabled(&account.id, true, Now::read()).await.unwrap();
        let mut answers = Vec::new();
        for who in [
            "ada",
            "ada@example.org",
            "bob",
            "eve",
            "eve@example.org",
            "nobody",
            "nobody@example.org",
            "<script>",
            "a b\u{0}",
        ] {
            let reply = ask_from(&app, "203.0.113.9", &who.replace('\0', "%00")).await;
            assert_eq!(reply.status, 200, "{who}: {}", text(&reply));
            let mut headers: Vec<_> =
                reply.headers.iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
            // Leaves out the request's id and what is left of the limit, which always differ.
            headers.retain(|line| !line.starts_with("x-request-id") && !line.starts_with("ratelimit"));
            headers.sort();
            answers.push((reply.body, headers));
        }
        assert!(answers.windows(2).all(|two| two[0] == two[1]), "{answers:?}");
        // Only ada gets mails: one by her name and one by her address.
        mailbox.gets(2).await;
        app.end().await;
    }
}

#[tokio::test]
async fn asking_is_limited_for_those_who_are_there_as_for_others() {
    for app in TestApp::public_on_both("mail_limits").await {
        let mailbox = Mailbox::new();
        let app = app.with_mails(mailbox.server(), Tries::default());
        with_address(&app, &mailbox, "ada", "ada@example.org").await;
        for who in ["ada", "nobody"] {
            for nth in 0..6 {
                let reply = ask_from(&app, "203.0.113.7", who).await;
                assert_eq!(reply.status, if nth < 5 { 200 } else { 429 }, "{who} {nth}");
            }
        }
        // From another address the owner may still ask. But five mails have been sent to the account, so no
        // more are sent.
        for peer in ["203.0.113.8", "203.0.113.9"] {
            assert_eq!(ask_from(&app, peer, "ada").await.status, 200);
            assert_eq!(ask_from(&app, peer, "ada@example.org").await.status, 200);
        }
        mailbox.gets(5).await;
        // An address has a limit, too, whichever names it gives.
        for nth in 0..30 {
            assert_eq!(ask_from(&app, "203.0.113.10", &format!("name-{nth}")).await.status, 200, "{nth}");
        }
        let reply = ask_from(&app, "203.0.113.10", "ada").await;
        assert_eq!(reply.status, 429, "{}", text(&reply));
        app.end().await;
    }
}

#[tokio::test]
async fn an_account_does_not_flood_strangers_with_mails() {
    let app = TestApp::public(SignUps::Open).await;
    let mailbox = Mailbox::new();
    let app = app.with_mails(mailbox.server(), Tries::default());
    let (eve, eva) = (Visitor::signed_up(&app, "eve").await, Visitor::signed_up(&app, "eva").await);
    for nth in 0..6 {
        let reply = give(&eve, "victim@example.org").await;
        assert_eq!(reply.status, if nth < 5 { 200 } else { 429 }, "{nth}");
    }
    assert_eq!(give(&eva, "Victim@example.org").await.status, 429, "another account has used it up");
    mailbox.gets(5).await;
}

#[tokio::test]
async fn what_makes_no_question_is_refused() {
    let app = TestApp::public(SignUps::Open).await;
    let mailbox = Mailbox::new();
    let app = app.with_mails(mailbox.server(), Tries::default());
    let visitor = Visitor::new(&app);
    assert_eq!(ask(&visitor, " ").await.status, 400);
    assert_eq!(ask(&visitor, &"x".repeat(255)).await.status, 400);
    let reply = ask(&visitor, "\"><script>alert(1)</script>").await;
    assert!(reply.status == 200 && !text(&reply).contains("<script>"));
    // A page of another site cannot ask.
    let request = Request::post("/password/forgotten")
        .header("host", PUBLIC_URL.strip_prefix("https://").unwrap())
        .header("origin", "https://evil.example")
        .header("content-type", "application/x-www-form-urlencoded");
    app.send(request.body(Body::from("who=ada")).unwrap()).await.refusal(403, "forbidden");
    mailbox.gets(0).await;
}
