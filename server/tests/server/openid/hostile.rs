//! Tests of providers that lie or are away, and of answers that are for another browser.

use axum::body::Body;
use axum::http::Request;
use diode_api::Account;
use diode_server::accounts::SignUps;
use diode_server::store::Now;

use super::provider::{Lie, SECRET, TestProvider, Trouble};
use super::{name, open, sign_in, sign_up, text};
use crate::test_app::TestApp;
use crate::visitor::Visitor;

#[tokio::test]
async fn what_a_provider_makes_up_signs_nobody_in() {
    let (app, provider) = open().await;
    sign_up(&app, &provider, "ada").await;
    for lie in [
        Lie::Nonce,
        Lie::Audience,
        Lie::TwoAudiences,
        Lie::Issuer,
        Lie::Expired,
        Lie::OtherKey,
        Lie::UnknownKey,
        Lie::Unsigned,
        Lie::SignedBySecret,
        Lie::NoIdToken,
        Lie::LongSubject,
        Lie::Elsewhere,
    ] {
        provider.lie(lie);
        let visitor = Visitor::new(&app);
        let reply = sign_in(&visitor, &provider, "ada").await;
        let text = text(&reply);
        assert_eq!(reply.status, 403, "{lie:?}: {text}");
        assert!(text.contains("cannot be trusted") && text.contains("<html"), "{lie:?}: {text}");
        assert!(!text.contains(SECRET) && !text.contains("eyJ"), "{lie:?}: {text}");
        visitor.get("/api/v1/account").await.refusal(401, "unauthorized");
        assert_eq!(visitor.get("/sign-up/openid").await.status, 403, "{lie:?}");
    }
    assert_eq!(app.backend.store.accounts().await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_answer_counts_once_and_in_one_browser() {
    let (app, provider) = open().await;
    sign_up(&app, &provider, "ada").await;
    let visitor = Visitor::new(&app);
    let begin = async |visitor: &Visitor<'_>| visitor.submit("/sign-in/openid", &[]).await;
    let back = provider.sign_in(&begin(&visitor).await, "ada");
    let cookie = visitor.cookie().unwrap();
    // Another browser has no cookie, or the cookie of its own sign-in. So somebody who is sent this address
    // is not signed in to the account of another person.
    let other = Visitor::new(&app);
    assert_eq!(other.get(&back).await.status, 403);
    begin(&other).await;
    assert_eq!(other.get(&back).await.status, 403);
    other.get("/api/v1/account").await.refusal(401, "unauthorized");
    assert_eq!(visitor.get(&back).await.header("location"), "/account");
    assert_eq!(name(&visitor).await, "ada");
    // A copy of all that the browser sent no longer works.
    let thief = Visitor::new(&app);
    thief.plant(&cookie);
    assert_eq!(thief.get(&back).await.status, 403);
    thief.get("/api/v1/account").await.refusal(401, "unauthorized");

    for (change, status) in [
        (("state=", "state=0"), 403),
        (("&state=", "&other="), 403),
        (("code=", "error=access_denied&not="), 403),
        (("code=", "error=%3Cscript%3E&not="), 403),
        (("&session_state=x", "&iss=https://evil.example"), 403),
        (("code=", "not="), 400),
        (("&session_state=", "&state="), 400),
        // The provider never issued this code.
        (("code=", "code=x"), 403),
    ] {
        let visitor = Visitor::new(&app);
        let back = provider.sign_in(&begin(&visitor).await, "ada");
        let reply = visitor.get(&back.replace(change.0, change.1)).await;
        assert_eq!(reply.status, status, "{change:?}: {}", text(&reply));
        assert!(!text(&reply).contains("<script"), "{change:?}");
        visitor.get("/api/v1/account").await.refusal(401, "unauthorized");
    }
    // The database does not have the secret of a sign-in that is under way.
    let visitor = Visitor::new(&app);
    begin(&visitor).await;
    let secret = visitor.cookie().unwrap().split_once('=').unwrap().1.to_owned();
    let file = std::fs::read(app.folder.path().join("diode.db-wal")).unwrap();
    assert!(secret.len() == 64 && !file.windows(64).any(|window| window == secret.as_bytes()));
}

#[tokio::test]
async fn a_provider_that_is_away_is_told_and_waited_for() {
    let (app, provider) = open().await;
    let visitor = Visitor::new(&app);
    for trouble in [Trouble::DiscoveryFails, Trouble::DiscoveryOfAnother, Trouble::DiscoveryIsNoJson] {
        provider.trouble(trouble);
        let reply = visitor.submit("/sign-in/openid", &[]).await;
        assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (503, "30"), "{trouble:?}");
        assert!(text(&reply).contains("Example does not answer"), "{}", text(&reply));
        assert_eq!(visitor.cookie(), None);
    }
    provider.trouble(Trouble::TokenFails);
    assert_eq!(sign_in(&visitor, &provider, "ada").await.status, 503);
    provider.recover();
    assert_eq!(sign_in(&visitor, &provider, "ada").await.header("location"), "/sign-up/openid");
    // The provider stops while the browser is there.
    let back = provider.sign_in(&visitor.submit("/sign-in/openid", &[]).await, "ada");
    provider.stop();
    let reply = visitor.get(&back).await;
    assert_eq!(reply.status, 503, "{}", text(&reply));
    // Signing in with a password still works.
    Visitor::signed_up(&app, "bob").await;
}

#[tokio::test]
async fn a_provider_may_change_its_key() {
    let (app, provider) = open().await;
    let ada = sign_up(&app, &provider, "ada").await;
    provider.rotate();
    // The server reads the provider's keys again at most once a second.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    assert_eq!(sign_in(&ada, &provider, "ada").await.header("location"), "/device");
}

#[tokio::test]
async fn a_disabled_account_stays_so() {
    let (app, provider) = open().await;
    let ada = sign_up(&app, &provider, "ada").await;
    let account: Account = ada.get("/api/v1/account").await.json();
    app.backend.store.set_disabled(&account.id, true, false, Now::read()).await.unwrap();
    let reply = sign_in(&ada, &provider, "ada").await;
    assert!(reply.status == 403 && text(&reply).contains("disabled"), "{}", text(&reply));
}

#[tokio::test]
async fn other_sites_begin_nothing_and_are_not_gone_on_to() {
    let (app, provider) = open().await;
    let ada = sign_up(&app, &provider, "ada").await;
    let cookie = ada.cookie().unwrap();
    for path in ["/sign-in/openid", "/sign-up/openid", "/account/openid", "/account/openid/unlink"] {
        for (name, value) in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
            let request = Request::post(path).header("host", "diode.example.org").header("cookie", &cookie);
            let request = request.header(name, value).body(Body::empty()).unwrap();
            app.send(request).await.refusal(403, "forbidden");
        }
    }
    for next in ["//evil.example", "/\\evil.example", "https://evil.example"] {
        let reply = ada.submit("/sign-in/openid", &[("next", next)]).await;
        let back = ada.get(&provider.sign_in(&reply, "ada")).await;
        assert_eq!((back.status.as_u16(), back.header("location")), (303, "/account"), "{next}");
    }
}

#[tokio::test]
async fn an_address_does_not_begin_any_number_of_sign_ins() {
    let (app, _provider) = open().await;
    let visitor = Visitor::new(&app);
    for _ in 0..200 {
        assert_eq!(visitor.submit("/sign-in/openid", &[]).await.status, 200);
    }
    let reply = visitor.submit("/sign-in/openid", &[]).await;
    assert_eq!(reply.status, 429);
    assert!(text(&reply).contains("15 minutes") && reply.header("ratelimit").starts_with("\"sign-ins\""));
}

#[tokio::test]
async fn a_server_starts_while_its_provider_is_away() {
    let provider = TestProvider::start().await;
    provider.stop();
    let app = TestApp::public(SignUps::Open).await.with_provider(provider.client());
    assert!(Visitor::new(&app).page("/sign-in").await.contains("Sign in with Example"));
}
