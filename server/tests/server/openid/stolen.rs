//! Tests of a password that somebody else knows, and of the identity that they linked with it.

use std::process::Command;

use diode_api::Reason;
use diode_server::accounts::{SignUps, password_link};
use diode_server::store::Now;

use super::provider::TestProvider;
use super::{name, sign_in, text};
use crate::test_app::{PUBLIC_URL, TestApp};
use crate::visitor::{PASSWORD, Visitor};

/// Somebody who knows the password links their own identity.
async fn linked_by_thief(app: &TestApp, provider: &TestProvider) {
    let thief = Visitor::signed_in(app, "ada", PASSWORD).await;
    let reply = thief.submit("/account/openid", &[("password", PASSWORD)]).await;
    let back = thief.get(&provider.sign_in(&reply, "thief")).await;
    assert_eq!(back.header("location"), "/account", "{}", text(&back));
    assert!(thief.page("/account").await.contains("You can sign in with Example, since 20"));
}

#[tokio::test]
async fn a_new_password_shuts_out_who_linked_by_the_old_one() {
    for app in TestApp::public_on_both("stolen_password").await {
        let provider = TestProvider::start().await;
        let app = app.with_provider(provider.client());
        let ada = Visitor::signed_up(&app, "ada").await;
        linked_by_thief(&app, &provider).await;
        let thief = Visitor::new(&app);
        assert_eq!(sign_in(&thief, &provider, "thief").await.header("location"), "/device");

        let id = app.backend.store.credentials(&"ada".parse().unwrap()).await.unwrap().unwrap().account.id;
        let link = password_link(app.backend.store.as_ref(), &app.policy, id).await.unwrap();
        let secret = link.url.strip_prefix(&format!("{PUBLIC_URL}/password?link=")).unwrap();
        let new = "a horse of another colour";
        let reply = ada.submit("/password", &[("link", secret), ("password", new)]).await;
        let said = text(&reply);
        assert!(reply.status == 200 && said.contains("linked with http://127.0.0.1"), "{said}");
        thief.get("/api/v1/account").await.refusal(401, "unauthorized");
        // The thief's identity belongs to no account any more, so they would have to make one.
        assert_eq!(sign_in(&thief, &provider, "thief").await.header("location"), "/sign-up/openid");
        assert_eq!(name(&Visitor::signed_in(&app, "ada", new).await).await, "ada");
        app.end().await;
    }
}

#[tokio::test]
async fn an_administrator_sees_and_unlinks_what_others_linked() {
    for app in TestApp::public_on_both("unlinked_by_admin").await {
        let provider = TestProvider::start().await;
        let app = app.with_provider(provider.client());
        Visitor::signed_up(&app, "ada").await;
        linked_by_thief(&app, &provider).await;
        let thief = Visitor::new(&app);
        sign_in(&thief, &provider, "thief").await;

        let store = app.backend.store.as_ref();
        let ada = store.credentials(&"ada".parse().unwrap()).await.unwrap().unwrap().account;
        let linked = store.identities(&ada.id).await.unwrap();
        assert_eq!(linked.len(), 1);
        let unlink = async |issuer: &str| {
            let reason: Reason = "a stranger".parse().unwrap();
            store.remove_identity(&ada.name, issuer, &reason, "root", Now::read()).await.unwrap()
        };
        for issuer in ["https://b.example", "\0"] {
            assert!(!unlink(issuer).await);
        }
        assert!(unlink(&linked[0].issuer).await);
        thief.get("/api/v1/account").await.refusal(401, "unauthorized");
        assert_eq!(sign_in(&thief, &provider, "thief").await.header("location"), "/sign-up/openid");
        let log = app.log().await;
        assert_eq!(log[0].what, format!("unlink ada from {}", linked[0].issuer));
        assert_eq!((log[0].who.as_str(), log[0].why.as_str()), ("root", "a stranger"));
        app.end().await;
    }
}

#[tokio::test]
async fn the_command_line_unlinks_too() {
    let provider = TestProvider::start().await;
    let app = TestApp::public(SignUps::Open).await.with_provider(provider.client());
    Visitor::signed_up(&app, "ada").await;
    linked_by_thief(&app, &provider).await;
    let admin = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_diode-server"))
            .args(["admin", "identities"])
            .args(arguments)
            .args(["--database-url", &app.data.database_url])
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, said, _) = admin(&["ada"]);
    let issuer = said.split(' ').next().unwrap();
    assert!(
        code == Some(0) && issuer.starts_with("http://127.0.0.1") && said.contains(" since 20"),
        "{said}"
    );
    assert_eq!(admin(&["ada", "--unlink", issuer]).0, Some(2), "a reason is asked for");
    let (code, _, error) = admin(&["ada", "--unlink", "https://b.example", "--reason", "a test"]);
    assert!(code == Some(1) && error.contains("`ada` is not linked with `https://b.example`"), "{error}");
    let (code, said, error) = admin(&["ada", "--unlink", issuer, "--reason", "a test"]);
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(said, format!("ada is unlinked from {issuer}, and its sessions have ended\n"));
    assert_eq!(admin(&["ada"]).1, "");
    let log = app.backend.store.moderation_log(9).await.unwrap();
    assert_eq!((log.len(), log[0].who.as_str(), log[0].why.as_str()), (1, "command line", "a test"));
}
