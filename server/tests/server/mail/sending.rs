//! Tests of mails over SMTP: to a server that accepts them, and to servers that do not.

use std::time::{Duration, Instant};

use diode_server::accounts::SignUps;
use diode_server::mail::Tries;
use diode_server::settings::{MailServer, Security};
use tokio::time::sleep;

use super::give;
use super::mailbox::Mail;
use super::smtp::{Manner, StandIn};
use crate::metrics::scrape;
use crate::test_app::TestApp;
use crate::tls::certify;
use crate::visitor::Visitor;

pub(super) const BRISK: Tries = Tries {
    timeout: Duration::from_millis(300),
    pause: Duration::from_millis(50),
    longest_pause: Duration::from_millis(100),
    look_every: Duration::from_millis(20),
};

/// Longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(20);

async fn sending_by(server: MailServer) -> TestApp {
    TestApp::public(SignUps::Open).await.with_mails(server, BRISK)
}

pub(super) fn at(port: u16) -> MailServer {
    format!("smtp://diode:p%40ss@127.0.0.1:{port}").parse().unwrap()
}

async fn ask(app: &TestApp) {
    let ada = Visitor::signed_up(app, "ada").await;
    let began = Instant::now();
    assert_eq!(give(&ada, "ada@example.org").await.status, 200);
    assert!(began.elapsed() < Duration::from_secs(5), "the request has waited for the mail");
}

/// Waits until the metrics have this line.
pub(super) async fn told(app: &TestApp, line: &str) {
    let began = Instant::now();
    loop {
        let text = scrape(app).await;
        if text.lines().any(|there| there == line) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "no line `{line}` in\n{text}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Asks for a mail. Waits until it is counted as `outcome` and no longer waits.
async fn send(app: &TestApp, outcome: &str) {
    ask(app).await;
    told(app, &format!(r#"diode_mails_total{{outcome="{outcome}"}} 1"#)).await;
    told(app, "diode_waiting_mails 0").await;
}

/// Waits until something has been tried `times` times.
async fn tried(times: usize, number: impl Fn() -> usize) {
    let began = Instant::now();
    while number() < times {
        assert!(began.elapsed() < PATIENCE, "it was tried {} times", number());
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_mail_server_gets_the_mail_from_who_has_signed_in() {
    let server = StandIn::start(Manner::Takes).await;
    let app = sending_by(at(server.port)).await;
    send(&app, "sent").await;
    let mail = Mail::parse(&server.mails()[0]);
    assert_eq!((mail.header("To"), server.mails().len()), ("ada@example.org", 1));
    assert!(mail.link().starts_with("/account/email?link="));
    let said = server.said();
    // In base64: an empty authorization identity, the user and the password.
    for line in ["EHLO diode.example.org", "AUTH PLAIN AGRpb2RlAHBAc3M=", "RCPT TO:<ada@example.org>"] {
        assert!(said.iter().any(|there| there == line), "no `{line}` in {said:?}");
    }
    assert!(said.iter().any(|line| line.starts_with("MAIL FROM:<diode@example.org>")), "{said:?}");
}

#[tokio::test]
async fn a_server_that_is_busy_is_asked_again() {
    let server = StandIn::start(Manner::IsBusyTwice).await;
    let app = sending_by(at(server.port)).await;
    send(&app, "sent").await;
    assert_eq!((server.connections(), server.mails().len()), (3, 1));
}

#[tokio::test]
async fn a_mail_that_is_refused_for_good_is_given_up_at_once() {
    let server = StandIn::start(Manner::Refuses).await;
    let app = sending_by(at(server.port)).await;
    send(&app, "failed").await;
    assert_eq!((server.connections(), server.mails().len()), (1, 0));
}

#[tokio::test]
async fn a_server_that_hangs_or_is_away_holds_no_request_up() {
    let server = StandIn::start(Manner::Hangs).await;
    let app = sending_by(at(server.port)).await;
    ask(&app).await;
    tried(3, || server.connections()).await;
    told(&app, "diode_waiting_mails 1").await;

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let app = sending_by(at(port)).await;
    ask(&app).await;
    told(&app, "diode_waiting_mails 1").await;
}

#[tokio::test]
async fn mails_go_by_tls_to_a_server_whose_certificate_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let (files, _) = certify(folder.path());
    for (manner, security) in [(Manner::Tls, Security::Tls), (Manner::StartTls, Security::StartTls)] {
        for is_trusted in [true, false] {
            let server = StandIn::start_with(manner, Some(&files)).await;
            let MailServer::Smtp(mut smtp) = at(server.port) else { panic!("it is a folder") };
            smtp.security = security;
            let ca = is_trusted.then(|| files.certificate.clone());
            let app = TestApp::public(SignUps::Open).await;
            let app = app.with_mails_trusting(MailServer::Smtp(smtp), BRISK, ca);
            if is_trusted {
                send(&app, "sent").await;
            } else {
                ask(&app).await;
                tried(2, || server.connections()).await;
            }
            assert_eq!(server.mails().len(), usize::from(is_trusted));
            let has_signed_in = server.said().iter().any(|line| line.starts_with("AUTH"));
            assert_eq!(has_signed_in, is_trusted, "{:?}", server.said());
        }
    }
}

#[tokio::test]
async fn nothing_is_said_in_the_clear_where_tls_is_due() {
    for security in [Security::StartTls, Security::Tls] {
        let server = StandIn::start(Manner::Takes).await;
        let MailServer::Smtp(mut smtp) = at(server.port) else { panic!("it is a folder") };
        smtp.security = security;
        let app = sending_by(MailServer::Smtp(smtp)).await;
        ask(&app).await;
        tried(2, || server.connections()).await;
        let said = server.said();
        assert!(said.iter().all(|line| !line.starts_with("AUTH") && !line.starts_with("MAIL")), "{said:?}");
        assert!(server.mails().is_empty());
    }
}
