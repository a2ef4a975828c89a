//! Tests of accounts over HTTP: making, changing and deleting them, and what other sites and strangers get.

use diode_api::{Account, IssuedToken, Receipt, Token, WhoAsks};
use diode_server::accounts::{SignUps, first_account_link, password_link};

use crate::samples::{columnar, seven};
use crate::test_app::{PUBLIC_URL, TestApp};
use crate::visitor::{PASSWORD, Visitor};

#[tokio::test]
async fn an_account_is_made_used_and_deleted() {
    let app = TestApp::public(SignUps::Open).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    let account: Account = ada.get("/api/v1/account").await.json();
    assert_eq!((account.name.as_str(), account.admin), ("ada", false));
    let who = ada.get("/api/v1/session").await.json::<WhoAsks>();
    assert_eq!(who.account.map(|account| account.name.to_string()).as_deref(), Some("ada"));
    assert_eq!(app.fetch::<WhoAsks>("/api/v1/session").await.account, None);

    // When the password changes, all sessions end except the one that changes it.
    let elsewhere = Visitor::signed_in(&app, "ada", PASSWORD).await;
    let new = "another horse battery staple";
    assert_eq!(ada.submit("/account/password", &[("current", PASSWORD), ("new", new)]).await.status, 200);
    assert_eq!(ada.get("/api/v1/account").await.status, 200);
    elsewhere.get("/api/v1/account").await.refusal(401, "unauthorized");
    let wrong = Visitor::new(&app).sign_in("ada", PASSWORD).await;
    wrong.refusal(401, "unauthorized");

    assert_eq!(ada.delete_account(PASSWORD, "keep").await.status, 401);
    let reply = ada.delete_account(new, "keep").await;
    assert_eq!(reply.status, 303);
    assert!(reply.header("set-cookie").contains("Max-Age=0"), "{}", reply.header("set-cookie"));
    ada.get("/api/v1/account").await.refusal(401, "unauthorized");
    // The name is free again. A new account with this name gets nothing that belonged to the old account.
    let other = Visitor::signed_up(&app, "ada").await;
    assert_ne!(other.get("/api/v1/account").await.json::<Account>().id, account.id);
}

#[tokio::test]
async fn uploads_leave_with_their_owner_or_stay_as_nobodys() {
    for (uploads, left) in [("keep", 200), ("delete", 404)] {
        let app = TestApp::public(SignUps::Open).await;
        let ada = Visitor::signed_up(&app, "ada").await;
        let bytes = columnar(&seven());
        let reply = ada.post_bytes("/api/v1/uploads", bytes).await;
        assert_eq!(reply.status, 201, "{:?}", String::from_utf8_lossy(&reply.body));
        let receipt: Receipt = reply.json();
        let blob = app.blobs().join("uploads").join(receipt.digest.as_str());
        assert!(blob.is_file());
        assert_eq!(ada.delete_account(PASSWORD, uploads).await.status, 303);
        assert_eq!(app.get(&format!("/api/v1/uploads/{}", receipt.id)).await.status, left);
        assert_eq!(blob.is_file(), uploads == "keep");
    }
}

#[tokio::test]
async fn sign_ups_are_open_by_invitation_or_closed() {
    for sign_ups in [SignUps::Invitation, SignUps::Closed] {
        let app = TestApp::public(sign_ups).await;
        let stranger = Visitor::new(&app);
        stranger.sign_up("eve", None).await.refusal(403, "forbidden");
        stranger.sign_up("eve", Some("0123456789abcdef")).await.refusal(403, "forbidden");

        let link = first_account_link(app.backend.store.as_ref(), &app.policy).await.unwrap();
        let secret = link.url.strip_prefix(&format!("{PUBLIC_URL}/sign-up?invitation=")).unwrap();
        let admin = Visitor::new(&app);
        assert_eq!(admin.sign_up("ada", Some(secret)).await.status, 201);
        assert!(admin.get("/api/v1/account").await.json::<Account>().admin);
        stranger.sign_up("eve", Some(secret)).await.refusal(403, "forbidden");

        let page = admin.submit("/admin/accounts/invite", &[]).await.page(200);
        let secret = page.split("invitation=").nth(1).unwrap().split('<').next().unwrap();
        // A taken name does not use up the invitation.
        let bob = Visitor::new(&app);
        bob.sign_up("ada", Some(secret)).await.refusal(409, "taken");
        assert_eq!(bob.sign_up("bob", Some(secret)).await.status, 201);
        assert!(!bob.get("/api/v1/account").await.json::<Account>().admin);
        stranger.sign_up("eve", Some(secret)).await.refusal(403, "forbidden");
    }
}

#[tokio::test]
async fn what_makes_no_account_is_refused() {
    let app = TestApp::public(SignUps::Open).await;
    let visitor = Visitor::new(&app);
    for (name, password, said) in [
        ("Ada", PASSWORD, "lower-case"),
        ("a", PASSWORD, "2 to 32"),
        ("a\\u0000b", PASSWORD, "lower-case"),
        ("<script>", PASSWORD, "lower-case"),
        ("ada", "short", "at least 10"),
        ("ada", "aaaaaaaaaaaaaaaa", "different"),
    ] {
        let body = format!(r#"{{"name":"{name}","password":"{password}"}}"#);
        let message = visitor.post("/api/v1/account", &body).await.refusal(400, "invalid");
        assert!(message.contains(said) && !message.contains(PASSWORD), "{name}: {message}");
    }
    visitor.post("/api/v1/account", "{").await.refusal(400, "invalid");
    visitor.post("/api/v1/account", "").await.refusal(400, "invalid");
    assert!(app.backend.store.has_no_accounts().await.unwrap());
    Visitor::signed_up(&app, "ada").await;
    visitor.sign_up("ada", None).await.refusal(409, "taken");
}

#[tokio::test]
async fn a_link_lets_its_owner_choose_a_password_once() {
    let app = TestApp::public(SignUps::Open).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    let account: Account = ada.get("/api/v1/account").await.json();
    let link = password_link(app.backend.store.as_ref(), &app.policy, account.id).await.unwrap();
    let path = link.url.strip_prefix(PUBLIC_URL).unwrap();
    let visitor = Visitor::new(&app);
    assert!(visitor.page("/sign-in").await.contains("/password/forgotten"));
    assert!(visitor.page("/password/forgotten").await.contains("diode-server admin reset NAME"));
    assert!(visitor.page(path).await.contains("New password"));
    let secret = link.url.rsplit('=').next().unwrap();
    let choose =
        async |password: &str| visitor.submit("/password", &[("link", secret), ("password", password)]).await;
    assert_eq!(choose("short").await.status, 400);
    assert_eq!(choose("a third horse battery staple").await.status, 200);
    ada.get("/api/v1/account").await.refusal(401, "unauthorized");
    assert_eq!(choose("a fourth horse battery").await.status, 403);
    assert_eq!(Visitor::new(&app).sign_in("ada", "a third horse battery staple").await.status, 200);
}

#[tokio::test]
async fn other_peoples_things_stay_theirs() {
    let app = TestApp::public(SignUps::Open).await;
    let (ada, eve) = (Visitor::signed_up(&app, "ada").await, Visitor::signed_up(&app, "eve").await);
    let issued: IssuedToken =
        ada.post("/api/v1/tokens", r#"{"name":"gpu01","scopes":["upload"]}"#).await.json();
    let path = format!("/api/v1/tokens/{}", issued.token.id);
    eve.send("DELETE", &path, "").await.refusal(404, "not_found");
    eve.send("DELETE", "/api/v1/tokens/..%2f..", "").await.refusal(404, "not_found");
    assert_eq!(eve.get("/api/v1/tokens").await.json::<Vec<Token>>(), []);
    assert_eq!(ada.get("/api/v1/tokens").await.json::<Vec<Token>>(), [issued.token]);
    // Without an account, the answer does not even say whether there are tokens.
    Visitor::new(&app).get("/api/v1/tokens").await.refusal(401, "unauthorized");
}
