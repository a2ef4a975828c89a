//! Tests of signing in by an OpenID Connect provider. The provider runs here and is asked over the network.

mod hostile;
mod provider;
mod stolen;

use diode_api::Account;
use diode_server::accounts::{SignUps, first_account_link};
use diode_server::store::Now;

use crate::terms::terms_of;
use crate::test_app::{PUBLIC_URL, Reply, TestApp};
use crate::visitor::{PASSWORD, Visitor};
use provider::TestProvider;

/// A server with open sign-ups, and its provider.
async fn open() -> (TestApp, TestProvider) {
    let provider = TestProvider::start().await;
    (TestApp::public(SignUps::Open).await.with_provider(provider.client()), provider)
}

/// Goes to the provider as `subject`, and comes back.
async fn sign_in(visitor: &Visitor<'_>, provider: &TestProvider, subject: &str) -> Reply {
    let reply = visitor.submit("/sign-in/openid", &[("next", "/device")]).await;
    visitor.get(&provider.sign_in(&reply, subject)).await
}

/// Signs in by the provider, and chooses a name.
async fn sign_up<'a>(app: &'a TestApp, provider: &TestProvider, subject: &str) -> Visitor<'a> {
    let visitor = Visitor::new(app);
    assert_eq!(sign_in(&visitor, provider, subject).await.header("location"), "/sign-up/openid");
    let reply = visitor.submit("/sign-up/openid", &[("name", subject)]).await;
    assert_eq!((reply.status.as_u16(), reply.header("location")), (303, "/device"));
    visitor
}

async fn name(visitor: &Visitor<'_>) -> String {
    visitor.get("/api/v1/account").await.json::<Account>().name.to_string()
}

fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

#[tokio::test]
async fn somebody_new_gets_an_account_and_comes_back_to_it() {
    for app in TestApp::public_on_both("openid").await {
        let provider = TestProvider::start().await;
        let app = app.with_provider(provider.client());
        let visitor = Visitor::new(&app);
        assert!(visitor.page("/sign-in?next=/device").await.contains("Sign in with Example"));
        let reply = visitor.submit("/sign-in/openid", &[("next", "/device")]).await;
        let cookie = reply.header("set-cookie");
        for part in ["__Host-diode_openid=", "; HttpOnly", "; SameSite=Lax", "; Secure", "; Max-Age=600"] {
            assert!(cookie.contains(part), "{part} in {cookie}");
        }
        let back = visitor.get(&provider.sign_in(&reply, "Ada.L")).await;
        assert_eq!((back.status.as_u16(), back.header("location")), (303, "/sign-up/openid"));
        visitor.get("/api/v1/account").await.refusal(401, "unauthorized");
        let page = visitor.page("/sign-up/openid").await;
        assert!(page.contains(r#"value="ada-l""#), "{page}");
        // A taken or invalid name does not use up the sign-up.
        Visitor::signed_up(&app, "ada").await;
        assert_eq!(visitor.submit("/sign-up/openid", &[("name", "ada")]).await.status, 409);
        assert_eq!(visitor.submit("/sign-up/openid", &[("name", "A")]).await.status, 400);
        let old = [("name", "ada-l"), ("terms", "7")];
        assert_eq!(visitor.submit("/sign-up/openid", &old).await.status, 409);
        let agreeing = [("name", "ada-l"), ("terms", "1")];
        let made = visitor.submit("/sign-up/openid", &agreeing).await;
        assert_eq!((made.status.as_u16(), made.header("location")), (303, "/device"));
        assert_eq!(name(&visitor).await, "ada-l");
        assert_eq!(visitor.submit("/sign-up/openid", &[("name", "again")]).await.status, 403);
        // Another subject is another person, even with the same e-mail address.
        let other = sign_up(&app, &provider, "eve").await;
        assert_eq!(name(&other).await, "eve");
        assert_eq!((terms_of(&visitor).await, terms_of(&other).await), (Some(1), None));
        // The account still has no password.
        Visitor::new(&app).sign_in("ada-l", PASSWORD).await.refusal(401, "unauthorized");
        visitor.submit("/sign-out", &[]).await;
        assert_eq!(sign_in(&visitor, &provider, "Ada.L").await.header("location"), "/device");
        assert_eq!(name(&visitor).await, "ada-l");
        app.end().await;
    }
}

#[tokio::test]
async fn an_account_without_a_password_can_get_one_and_can_go() {
    let (app, provider) = open().await;
    let ada = sign_up(&app, &provider, "ada").await;
    let page = ada.page("/account").await;
    assert!(page.contains("Choose a password") && !page.contains("Current password"), "{page}");
    let only = ada.submit("/account/openid/unlink", &[]).await;
    assert!(only.status == 409 && text(&only).contains("choose a password first"), "{}", text(&only));
    assert_eq!(ada.submit("/account/password", &[("new", PASSWORD)]).await.status, 200);
    // From now on the server asks for the password.
    for path in ["/account/openid/unlink", "/account/delete"] {
        assert_eq!(ada.submit(path, &[("uploads", "keep")]).await.status, 400, "{path}");
        let wrong = [("password", "wrong horse battery staple"), ("uploads", "keep")];
        assert_eq!(ada.submit(path, &wrong).await.status, 401, "{path}");
    }
    assert_eq!(ada.submit("/account/openid/unlink", &[("password", PASSWORD)]).await.status, 200);
    assert_eq!(ada.submit("/account/openid/unlink", &[("password", PASSWORD)]).await.status, 409);
    let visitor = Visitor::signed_in(&app, "ada", PASSWORD).await;
    assert_eq!(name(&visitor).await, "ada");
    // The provider no longer opens the account.
    let stranger = Visitor::new(&app);
    assert_eq!(sign_in(&stranger, &provider, "ada").await.header("location"), "/sign-up/openid");

    let eve = sign_up(&app, &provider, "eve").await;
    assert_eq!(eve.submit("/account/delete", &[("uploads", "keep")]).await.status, 303);
    // The identity was deleted with the account.
    assert_eq!(sign_in(&eve, &provider, "eve").await.header("location"), "/sign-up/openid");
}

#[tokio::test]
async fn an_old_session_alone_does_not_take_an_account_over() {
    let (app, provider) = open().await;
    let ada = sign_up(&app, &provider, "ada").await;
    let account: Account = ada.get("/api/v1/account").await.json();
    // A thief of the cookie has a session that began eleven minutes ago.
    let secret = "0".repeat(64);
    let ends = Now::read().0.as_millisecond() + (30 * 24 * 60 - 11) * 60_000;
    let digest = diode_core::ids::Digest::of(secret.as_bytes());
    app.backend.store.add_session(&digest, &account.id, Now::read(), ends).await.unwrap();
    let thief = Visitor::new(&app);
    thief.plant(&format!("__Host-diode_session={secret}"));
    assert_eq!(name(&thief).await, "ada");
    for (path, field) in [("/account/password", ("new", PASSWORD)), ("/account/delete", ("uploads", "keep"))]
    {
        let reply = thief.submit(path, &[field]).await;
        assert!(reply.status == 403 && text(&reply).contains("ten minutes ago"), "{}", text(&reply));
    }
    assert_eq!(ada.get("/api/v1/account").await.status, 200);
}

#[tokio::test]
async fn an_account_is_linked_and_unlinked() {
    let (app, provider) = open().await;
    let ada = Visitor::signed_up(&app, "ada").await;
    assert!(ada.page("/account").await.contains("Link your account"));
    // An open session is not enough to link an account, because the provider then opens the account for good.
    assert_eq!(ada.submit("/account/openid", &[]).await.status, 400);
    let begin =
        async |visitor: &Visitor<'_>| visitor.submit("/account/openid", &[("password", PASSWORD)]).await;
    let reply = begin(&ada).await;
    let back = provider.sign_in(&reply, "ada at example");
    assert_eq!(ada.get(&back).await.header("location"), "/account");
    assert!(ada.page("/account").await.contains("You can sign in with Example"));
    let elsewhere = Visitor::new(&app);
    assert_eq!(sign_in(&elsewhere, &provider, "ada at example").await.header("location"), "/device");
    assert_eq!(name(&elsewhere).await, "ada");
    // An account of the provider is linked with at most one account here, and an account here with at most one
    // account of the provider.
    let eve = Visitor::signed_up(&app, "eve").await;
    let back = provider.sign_in(&begin(&eve).await, "ada at example");
    assert_eq!(eve.get(&back).await.status, 409);
    let back = provider.sign_in(&begin(&ada).await, "another at example");
    assert_eq!(ada.get(&back).await.status, 409);
    // If another account has signed in meanwhile, the identity is not linked to that account.
    let back = provider.sign_in(&begin(&eve).await, "eve at example");
    eve.sign_in("ada", PASSWORD).await;
    assert_eq!(eve.get(&back).await.status, 403);
    assert_eq!(name(&elsewhere).await, "ada");
    assert_eq!(ada.submit("/account/openid/unlink", &[("password", PASSWORD)]).await.status, 200);
    let stranger = Visitor::new(&app);
    assert_eq!(sign_in(&stranger, &provider, "ada at example").await.header("location"), "/sign-up/openid");
}

#[tokio::test]
async fn sign_ups_are_by_the_same_rules_as_with_a_password() {
    for sign_ups in [SignUps::Invitation, SignUps::Closed] {
        let provider = TestProvider::start().await;
        let app = TestApp::public(sign_ups).await.with_provider(provider.client());
        let stranger = Visitor::new(&app);
        let refused = sign_in(&stranger, &provider, "eve").await;
        assert!(
            refused.status == 403 && text(&refused).contains("link it with Example"),
            "{}",
            text(&refused)
        );

        let invited = async |link: &str, subject: &str| {
            let visitor = Visitor::new(&app);
            let page = visitor.page(link.strip_prefix(PUBLIC_URL).unwrap()).await;
            assert!(page.contains("Sign in with Example"), "{page}");
            let secret = link.rsplit('=').next().unwrap();
            let reply = visitor.submit("/sign-in/openid", &[("invitation", secret)]).await;
            visitor.get(&provider.sign_in(&reply, subject)).await;
            (visitor.submit("/sign-up/openid", &[("name", subject)]).await.status.as_u16(), visitor)
        };
        let link = first_account_link(app.backend.store.as_ref(), &app.policy).await.unwrap();
        let (status, ada) = invited(&link.url, "ada").await;
        assert_eq!(status, 303);
        assert!(ada.get("/api/v1/account").await.json::<Account>().admin);
        let page = ada.submit("/admin/accounts/invite", &[]).await.page(200);
        let link = page.split("class=\"secret\">").nth(1).unwrap().split('<').next().unwrap();
        assert_eq!(invited(link, "bob").await.0, 303);
        assert_eq!(invited(link, "eve").await.0, 403);
        assert_eq!(app.backend.store.accounts().await.unwrap().len(), 2);
    }
}

#[tokio::test]
async fn without_a_provider_there_is_no_button() {
    let app = TestApp::public(SignUps::Open).await;
    let visitor = Visitor::new(&app);
    assert!(!visitor.page("/sign-in").await.contains("/sign-in/openid"));
    assert_eq!(visitor.submit("/sign-in/openid", &[]).await.status, 404);
    assert_eq!(visitor.get("/sign-in/openid/callback?code=a&state=b").await.status, 404);
}
