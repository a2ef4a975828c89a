//! Tests of mails that wait in the database: for a mail server that is away, for another server, or until they are
//! given up.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use diode_api::Account;
use diode_server::accounts::SignUps;
use diode_server::store::{MailKind, Now};
use sqlx::Connection as _;
use tokio::net::TcpListener;
use tokio::time::sleep;

use super::give;
use super::mailbox::Mail;
use super::sending::{BRISK, at, told};
use super::smtp::{Manner, StandIn};
use crate::postgres;
use crate::process::Server;
use crate::test_app::TestApp;
use crate::visitor::Visitor;

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_mail_server_that_is_away_for_a_while_delays_a_mail() {
    for app in TestApp::public_on_both("mail_delayed").await {
        // The port is open, but nobody answers there.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let app = app.with_mails(at(listener.local_addr().unwrap().port()), BRISK);
        let ada = Visitor::signed_up(&app, "ada").await;
        assert_eq!(give(&ada, "ada@example.org").await.status, 200);
        sleep(3 * (BRISK.timeout + BRISK.longest_pause)).await;
        told(&app, "diode_waiting_mails 1").await;
        let server = StandIn::start_on(listener, Manner::Takes, None);
        told(&app, r#"diode_mails_total{outcome="sent"} 1"#).await;
        told(&app, "diode_waiting_mails 0").await;
        let mails: Vec<Mail> = server.mails().iter().map(|text| Mail::parse(text)).collect();
        assert_eq!(mails.len(), 1);
        assert_eq!(super::confirm(&ada, &mails[0].link()).await.status, 200);
        app.end().await;
    }
}

#[tokio::test]
async fn two_servers_send_each_mail_once() {
    for app in TestApp::public_on_both("mail_once").await {
        let ada = Visitor::signed_up(&app, "ada").await;
        let account: Account = ada.get("/api/v1/account").await.json();
        let addresses: BTreeSet<String> = (0..40).map(|nth| format!("ada-{nth}@example.org")).collect();
        for to in &addresses {
            let to = to.parse().unwrap();
            let added = app.backend.store.add_mail(MailKind::AddressTakenOff, &account.id, &to, Now::read());
            assert!(added.await.unwrap());
        }
        drop(ada);
        let server = StandIn::start(Manner::Takes).await;
        let replica = app.replica().await.with_mails(at(server.port), BRISK);
        let app = app.with_mails(at(server.port), BRISK);
        told(&app, "diode_waiting_mails 0").await;
        sleep(Duration::from_millis(300)).await;
        let to: Vec<String> =
            server.mails().iter().map(|text| Mail::parse(text).header("To").to_owned()).collect();
        assert_eq!((to.len(), to.into_iter().collect::<BTreeSet<_>>()), (40, addresses));
        replica.backend.store.close().await;
        app.end().await;
    }
}

#[tokio::test]
async fn a_mail_that_has_waited_too_long_is_given_up() {
    let app = TestApp::public(SignUps::Open).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    let account: Account = ada.get("/api/v1/account").await.json();
    drop(ada);
    let to = "ada@example.org".parse().unwrap();
    let before = Now(Now::read().0 - MailKind::NewPassword.tried_for());
    assert!(app.backend.store.add_mail(MailKind::NewPassword, &account.id, &to, before).await.unwrap());
    let server = StandIn::start(Manner::Takes).await;
    let app = app.with_mails(at(server.port), BRISK);
    told(&app, r#"diode_mails_total{outcome="failed"} 1"#).await;
    told(&app, "diode_waiting_mails 0").await;
    assert_eq!(server.connections(), 0);
}

/// A server on a folder. It sends its mails to `mails`, and logs as much as it can.
fn start(folder: &Path, database_url: &str, mails: &str) -> Server {
    let log = std::fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
    let mut command = Server::command_on(folder, database_url);
    let command = command
        .args(["--sign-ups", "open", "--mail-server", mails, "--mail-from", "diode@example.org"])
        .env("DIODE_LOG", "trace,hyper=info")
        .stderr(log);
    Server::started(command.spawn().unwrap())
}

fn soon<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what} has not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Signs up and adds an address.
fn ask_to_confirm(server: &Server) {
    let account = r#"{"name":"ada","password":"correct horse battery staple","terms":1}"#;
    let reply = ureq::post(format!("{}/api/v1/account", server.address))
        .content_type("application/json")
        .send(account)
        .unwrap();
    let cookie = reply.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let reply = ureq::post(format!("{}/account/email", server.address))
        .content_type("application/x-www-form-urlencoded")
        .header("cookie", cookie)
        .header("origin", &server.address)
        .send("email=ada@example.org&password=correct+horse+battery+staple");
    assert_eq!(reply.unwrap().status(), 200);
}

fn is_sent_by_the_next(database_url: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = start(folder.path(), database_url, &format!("smtp://127.0.0.1:{port}"));
    ask_to_confirm(&server);
    let log = || std::fs::read_to_string(folder.path().join("log")).unwrap();
    // The next look for mails shows that the failed try is stored. Before, the mail is still claimed for minutes.
    soon("the look after a failed try", || {
        let log = log();
        let (_, after) = log.split_once("next try in 10 s")?;
        let (_, after) = after.split_once("UPDATE mails SET not_before")?;
        after.contains("SELECT position FROM mails").then_some(())
    });
    server.kill();

    let server = start(folder.path(), database_url, "file:mails");
    let mails = || -> Vec<_> {
        let Ok(found) = std::fs::read_dir(folder.path().join("mails")) else { return Vec::new() };
        let files = found.map(|file| file.unwrap().path());
        files.filter(|file| file.extension().is_some_and(|end| end == "eml")).collect()
    };
    let mail = soon("the mail", || mails().pop());
    let text = std::fs::read_to_string(mail).unwrap();
    let (_, secret) = text.split_once("/account/email?link=").unwrap();
    let secret = secret.split_whitespace().next().unwrap().to_owned();
    assert_eq!((secret.len(), mails().len()), (64, 1));
    soon("the end of it", || log().contains("DELETE FROM mails").then_some(()));
    server.kill();
    assert!(!log().contains(&secret), "the link is in the log");
    (folder, secret)
}

#[test]
fn a_mail_of_a_server_that_was_killed_is_sent_by_the_next_on_sqlite() {
    let (folder, secret) = is_sent_by_the_next("sqlite:diode.db");
    for file in ["diode.db", "diode.db-wal"] {
        let bytes = std::fs::read(folder.path().join(file)).unwrap();
        let is_there = bytes.windows(secret.len()).any(|there| there == secret.as_bytes());
        assert!(!is_there, "the link is in {file}");
    }
}

#[test]
fn a_mail_of_a_server_that_was_killed_is_sent_by_the_next_on_postgres() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let url = runtime.block_on(postgres::create("mail_killed"));
    let (_, secret) = is_sent_by_the_next(&url);
    let rows: Vec<(String,)> = runtime.block_on(async {
        let mut database = sqlx::PgConnection::connect(&url).await.unwrap();
        let all = "SELECT links::text FROM links UNION ALL SELECT mails::text FROM mails";
        sqlx::query_as(all).fetch_all(&mut database).await.unwrap()
    });
    assert!(rows.len() > 1 && rows.iter().all(|(row,)| !row.contains(&secret)), "{rows:?}");
    runtime.block_on(postgres::remove(&url));
}
