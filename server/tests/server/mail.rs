//! Tests of mails: how an account gets an address, and how its owner chooses a new password by it.

mod hostile;
mod mailbox;
mod sending;
mod smtp;
mod waiting;

use diode_api::{Account, LogEntry};
use diode_server::accounts::{SignUps, password_link};
use diode_server::mail::Tries;

use crate::moderation::administrator;
use crate::test_app::{PUBLIC_URL, Reply, TestApp};
use crate::visitor::{PASSWORD, Visitor};
use mailbox::Mailbox;

const NEW: &str = "a horse of another colour";

fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

async fn ask(visitor: &Visitor<'_>, who: &str) -> Reply {
    visitor.submit("/password/forgotten", &[("who", who)]).await
}

async fn choose(visitor: &Visitor<'_>, link: &str, password: &str) -> Reply {
    let secret = link.strip_prefix("/password?link=").unwrap();
    visitor.submit("/password", &[("link", secret), ("password", password)]).await
}

/// Asks for an address to be added, with the password.
async fn give(visitor: &Visitor<'_>, email: &str) -> Reply {
    visitor.submit("/account/email", &[("email", email), ("password", PASSWORD)]).await
}

/// Confirms the address with the link of a mail.
async fn confirm(visitor: &Visitor<'_>, link: &str) -> Reply {
    let secret = link.strip_prefix("/account/email?link=").unwrap();
    visitor.submit("/account/email/confirm", &[("link", secret)]).await
}

/// Somebody with a confirmed address.
async fn with_address<'a>(app: &'a TestApp, mailbox: &Mailbox, name: &str, email: &str) -> Visitor<'a> {
    let visitor = Visitor::signed_up(app, name).await;
    let reply = give(&visitor, email).await;
    assert_eq!(reply.status, 200, "{}", text(&reply));
    let link = mailbox.next().await.link();
    let reply = confirm(&visitor, &link).await;
    assert!(
        reply.status == 200 && text(&reply).contains(&format!("Mails go to {email} now")),
        "{}",
        text(&reply)
    );
    visitor
}

#[tokio::test]
async fn a_lost_password_is_chosen_anew_by_a_link_that_was_mailed() {
    for app in TestApp::public_on_both("mailed_password").await {
        let mailbox = Mailbox::new();
        let app = app.with_mails(mailbox.server(), Tries::default());
        let root = administrator(&app).await;
        let ada = with_address(&app, &mailbox, "ada", "Ada@example.org").await;
        let visitor = Visitor::new(&app);
        assert!(visitor.page("/sign-in").await.contains("/password/forgotten"));
        assert!(visitor.page("/password/forgotten").await.contains("Name or e-mail address"));

        assert_eq!(ask(&visitor, "ada").await.status, 200);
        let first = mailbox.next().await;
        assert_eq!(first.header("To"), "Ada@example.org");
        assert_eq!(first.header("From"), "diode@example.org");
        assert!(
            first.text.contains("the account ada on") && first.text.contains(PUBLIC_URL),
            "{}",
            first.text
        );
        assert_eq!(ask(&visitor, " ada@EXAMPLE.org ").await.status, 200);
        let second = mailbox.next().await.link();
        assert!(visitor.page(&second).await.contains("New password"));
        assert_eq!(ada.get("/api/v1/account").await.status, 200, "nothing has changed yet");

        assert_eq!(choose(&visitor, &second, "short").await.status, 400);
        let reply = choose(&visitor, &second, NEW).await;
        assert!(reply.status == 200 && !text(&reply).contains("Mails do not go"), "{}", text(&reply));
        ada.get("/api/v1/account").await.refusal(401, "unauthorized");
        visitor.sign_in("ada", PASSWORD).await.refusal(401, "unauthorized");
        for used in [&second, &first.link()] {
            assert_eq!(choose(&visitor, used, "a third horse battery").await.status, 403);
        }
        let ada = Visitor::signed_in(&app, "ada", NEW).await;
        assert!(ada.page("/account").await.contains("Ada@example.org"), "the address is the owner's");
        let log: Vec<LogEntry> = root.get("/api/v1/moderation").await.json();
        assert!(log.iter().any(|entry| entry.what == "choose the password of ada" && entry.who == "ada"));
        assert!(log.iter().all(|entry| !format!("{entry:?}").contains('@')), "{log:?}");
        app.end().await;
    }
}

#[tokio::test]
async fn an_address_counts_once_its_owner_has_followed_the_link_signed_in() {
    let app = TestApp::public(SignUps::Open).await;
    let mailbox = Mailbox::new();
    let app = app.with_mails(mailbox.server(), Tries::default());
    let (ada, eve) = (Visitor::signed_up(&app, "ada").await, Visitor::signed_up(&app, "eve").await);
    for (email, password, status) in
        [("ada@example.org", "wrong password", 401), ("ada@example.org", "", 401), ("ada", PASSWORD, 400)]
    {
        let reply = ada.submit("/account/email", &[("email", email), ("password", password)]).await;
        assert_eq!(reply.status, status, "{email} {password}");
    }
    let stranger = Visitor::new(&app);
    give(&stranger, "ada@example.org").await.refusal(401, "unauthorized");
    assert_eq!(give(&ada, "ada@example.org").await.status, 200);
    let link = mailbox.next().await.link();
    // Somebody who gets the mail because of a mistyped address has no session of the account.
    let reply = stranger.get(&link).await;
    let back = link.replace('?', "%3F").replace('=', "%3D");
    assert_eq!(reply.header("location"), format!("/sign-in?next={back}"));
    confirm(&stranger, &link).await.refusal(401, "unauthorized");
    assert_eq!(confirm(&eve, &link).await.status, 403);
    // Programs that scan mails follow links, so opening a link must change nothing.
    assert!(ada.page(&link).await.contains("Confirm"));
    assert_eq!(ask(&stranger, "ada").await.status, 200);
    mailbox.gets(0).await;
    assert_eq!(confirm(&ada, &link).await.status, 200);
    assert_eq!(confirm(&ada, &link).await.status, 403);

    // An address gets a mail when the account confirms another address instead, or removes it.
    give(&ada, "ada@example.com").await;
    confirm(&ada, &mailbox.next().await.link()).await;
    let told = mailbox.next().await;
    assert_eq!(told.header("To"), "ada@example.org");
    assert!(told.text.contains("taken off or replaced"), "{}", told.text);
    let remove = async |password: &str| ada.submit("/account/email/remove", &[("password", password)]).await;
    assert_eq!(remove("wrong password").await.status, 401);
    assert_eq!(remove(PASSWORD).await.status, 200);
    assert_eq!(mailbox.next().await.header("To"), "ada@example.com");
    assert!(!ada.page("/account").await.contains("@example"));
}

#[tokio::test]
async fn the_address_leaves_with_the_account_and_with_a_link_of_an_operator() {
    for app in TestApp::public_on_both("address_leaves").await {
        let mailbox = Mailbox::new();
        let app = app.with_mails(mailbox.server(), Tries::default());
        let email = "shared@example.org";
        let ada = with_address(&app, &mailbox, "ada", email).await;
        let bob = with_address(&app, &mailbox, "bob", email).await;
        let stored =
            async || app.backend.store.accounts_of_email(&email.parse().unwrap()).await.unwrap().len();
        assert_eq!(stored().await, 2);
        // Each account with the address gets one mail.
        ask(&Visitor::new(&app), email).await;
        let sent = [mailbox.next().await.text, mailbox.next().await.text].concat();
        assert!(sent.contains("the account ada on") && sent.contains("the account bob on"), "{sent}");

        let account: Account = bob.get("/api/v1/account").await.json();
        let link = password_link(app.backend.store.as_ref(), &app.policy, account.id).await.unwrap();
        let reply = choose(&Visitor::new(&app), link.url.strip_prefix(PUBLIC_URL).unwrap(), NEW).await;
        assert!(text(&reply).contains("Mails do not go"), "{}", text(&reply));
        assert_eq!(stored().await, 1);
        let delete = format!(r#"{{"password":"{PASSWORD}","uploads":"keep"}}"#);
        assert_eq!(ada.send("DELETE", "/api/v1/account", &delete).await.status, 204);
        assert_eq!(stored().await, 0);
        app.end().await;
    }
}

#[tokio::test]
async fn without_mails_the_page_says_whom_to_ask() {
    let app = TestApp::public(SignUps::Open).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    assert!(ada.page("/password/forgotten").await.contains("diode-server admin reset NAME"));
    assert!(!ada.page("/account").await.contains("E-mail address"));
    let reply = ask(&ada, "ada").await;
    assert!(reply.status == 404 && text(&reply).contains("sends no mails"), "{}", text(&reply));
    let reply = give(&ada, "ada@example.org").await;
    assert!(reply.status == 404 && text(&reply).contains("sends no mails"), "{}", text(&reply));
}
