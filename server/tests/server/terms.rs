//! Tests of the terms of contributing: who must agree, who has agreed, and what each upload's licence is.

use axum::body::Body;
use axum::http::Request;
use diode_api::{
    AGENT_KEY, Account, Agent, Lease, LeaseAnswer, Receipt, SnapshotManifest, TERMS_HEADER, TERMS_VERSION,
    Terms, UploadLicence,
};
use diode_core::ids::UploadId;
use diode_server::accounts::SignUps;
use diode_server::jobs::worker;
use diode_server::store::Now;

use crate::agents::h200_registration;
use crate::dataset_snapshots::frozen;
use crate::moderation::administrator;
use crate::samples::{columnar, dataset, h200, mm, seven};
use crate::test_app::{Reply, TestApp};
use crate::tokens::{issue, with_token};
use crate::visitor::{PASSWORD, Visitor};

const IN_FORCE: &str = "1";

/// An upload of one problem.
fn file(m: u64) -> Vec<u8> {
    columnar(&dataset(h200(), &[mm(m, 512, 512)], 1.0))
}

async fn send(app: &TestApp, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Reply {
    let mut request = Request::post(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    app.send(request.body(Body::from(body)).unwrap()).await
}

/// The version that an account has agreed to.
pub(crate) async fn terms_of(visitor: &Visitor<'_>) -> Option<u32> {
    let account: Account = visitor.get("/api/v1/account").await.json();
    account.terms.map(|terms| terms.version)
}

#[tokio::test]
async fn an_account_agrees_when_it_is_made() {
    for app in TestApp::public_on_both("terms_sign_up").await {
        let asked = async |visitor: &Visitor<'_>| visitor.get("/api/v1/terms").await.json::<Terms>().asked;
        let stranger = Visitor::new(&app);
        assert!(!asked(&stranger).await, "they need an account first");
        let old = stranger.sign_up_agreeing("ada", None, Some(TERMS_VERSION + 1)).await;
        let message = old.refusal(409, "terms_changed");
        assert!(message.contains("https://diode.example.org/terms"), "{message}");
        stranger.sign_up_agreeing("ada", None, Some(0)).await.refusal(409, "terms_changed");

        let ada = Visitor::signed_up(&app, "ada").await;
        let account: Account = ada.get("/api/v1/account").await.json();
        let terms = account.terms.unwrap();
        assert_eq!((terms.version, terms.agreed_at.as_str()), (TERMS_VERSION, account.created_at.as_str()));
        assert!(!asked(&ada).await);
        let receipt: Receipt = ada.post_bytes("/api/v1/uploads", file(64)).await.json();
        assert_eq!(receipt.licence, UploadLicence::agreed(TERMS_VERSION));
        let kept: Receipt = app.fetch(&format!("/api/v1/uploads/{}", receipt.id)).await;
        assert_eq!(kept.licence, receipt.licence);
        app.end().await;
    }
}

#[tokio::test]
async fn an_account_that_has_not_agreed_is_told_what_to_do_and_agrees_once() {
    for app in TestApp::public_on_both("terms_later").await {
        let ada = Visitor::new(&app);
        assert_eq!(ada.sign_up_agreeing("ada", None, None).await.status, 201);
        assert!(ada.get("/api/v1/terms").await.json::<Terms>().asked);
        let refused = ada.post_bytes("/api/v1/uploads", file(64)).await.refusal(403, "terms_not_agreed");
        for part in [
            "MIT OR Apache-2.0",
            "https://diode.example.org/terms",
            "/account",
            "--agree 1",
            "diode-terms: 1",
        ] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        assert!(app.fetch::<Vec<Receipt>>("/api/v1/uploads").await.is_empty());

        // None of these counts as an agreement: a token that cannot contribute, a version that is not in force,
        // and nonsense.
        let train = format!("Bearer {}", issue(&ada, r#"["train"]"#).await.secret);
        let by_train = with_token(&app, "PUT", "/api/v1/account/terms", &train, agree(1)).await;
        by_train.refusal(403, "forbidden");
        for version in [0, TERMS_VERSION + 1] {
            let body = String::from_utf8(agree(version)).unwrap();
            ada.send("PUT", "/api/v1/account/terms", &body).await.refusal(409, "terms_changed");
        }
        for body in ["", "{}", r#"{"version":"1"}"#, r#"{"version":-1}"#, r#"{"version":1,"for":"bob"}"#] {
            ada.send("PUT", "/api/v1/account/terms", body).await.refusal(400, "invalid");
        }
        let stranger = Visitor::new(&app);
        stranger.send("PUT", "/api/v1/account/terms", r#"{"version":1}"#).await.refusal(401, "unauthorized");
        assert_eq!(terms_of(&ada).await, None);

        // The agreement of the first contribution counts for all later contributions.
        let upload = format!("Bearer {}", issue(&ada, r#"["upload"]"#).await.secret);
        let by_token = [("authorization", upload.as_str()), (TERMS_HEADER, IN_FORCE)];
        let first: Receipt = send(&app, "/api/v1/uploads", &by_token, file(64)).await.json();
        assert_eq!((first.licence, terms_of(&ada).await), (UploadLicence::agreed(1), Some(1)));
        assert_eq!(ada.post_bytes("/api/v1/uploads", file(128)).await.status, 201);

        // A request to agree has the same effect. Two requests count once.
        let bob = Visitor::new(&app);
        assert_eq!(bob.sign_up_agreeing("bob", None, None).await.status, 201);
        let token = format!("Bearer {}", issue(&bob, r#"["agent"]"#).await.secret);
        for _ in 0..2 {
            let agreed = with_token(&app, "PUT", "/api/v1/account/terms", &token, agree(1)).await;
            assert_eq!(agreed.status, 204);
        }
        assert_eq!(bob.post_bytes("/api/v1/uploads", file(192)).await.status, 201);
        app.end().await;
    }
}

fn agree(version: u32) -> Vec<u8> {
    format!(r#"{{"version":{version}}}"#).into_bytes()
}

#[tokio::test]
async fn what_is_sent_without_an_account_carries_the_agreement() {
    for app in TestApp::taking_uploads("terms_anonymous").await {
        assert!(app.fetch::<Terms>("/api/v1/terms").await.asked);
        app.upload(file(64)).await.refusal(403, "terms_not_agreed");
        for (value, status, code) in [
            ("", 400, "invalid"),
            ("yes", 400, "invalid"),
            ("1, 1", 400, "invalid"),
            ("-1", 400, "invalid"),
            ("0", 409, "terms_changed"),
            ("2", 409, "terms_changed"),
            ("99999999999", 400, "invalid"),
        ] {
            let reply = send(&app, "/api/v1/uploads", &[(TERMS_HEADER, value)], file(64)).await;
            reply.refusal(status, code);
        }
        assert!(app.fetch::<Vec<Receipt>>("/api/v1/uploads").await.is_empty());
        let receipt: Receipt =
            send(&app, "/api/v1/uploads", &[(TERMS_HEADER, IN_FORCE)], file(64)).await.json();
        assert_eq!((receipt.licence, receipt.contributor), (UploadLicence::agreed(1), None));
        // Each upload without an account must agree by itself.
        app.upload(file(128)).await.refusal(403, "terms_not_agreed");
        app.end().await;
    }
}

#[tokio::test]
async fn where_everything_is_free_nobody_is_asked() {
    for app in TestApp::on_both("terms_local").await {
        assert!(!app.fetch::<Terms>("/api/v1/terms").await.asked);
        let stated = app.receipt(file(64)).await;
        assert_eq!(stated.licence, UploadLicence::stated());
        // If somebody agrees although nobody asks, the agreement counts, also for bytes that are stored
        // already.
        let agreeing = [(TERMS_HEADER, IN_FORCE)];
        let agreed: Receipt = send(&app, "/api/v1/uploads", &agreeing, file(64)).await.json();
        assert_eq!((agreed.id, agreed.already_stored), (stated.id.clone(), true));
        assert_eq!(agreed.licence, UploadLicence::agreed(1));
        assert_eq!(app.receipt(file(64)).await.licence, UploadLicence::agreed(1));
        send(&app, "/api/v1/uploads", &[(TERMS_HEADER, "2")], file(64)).await.refusal(409, "terms_changed");
        app.end().await;
    }
}

#[tokio::test]
async fn agents_agree_before_they_measure_and_their_results_are_not_lost() {
    for app in TestApp::public_on_both("terms_agents").await {
        let ada = Visitor::new(&app);
        assert_eq!(ada.sign_up_agreeing("ada", None, None).await.status, 201);
        let token = format!("Bearer {}", issue(&ada, r#"["agent"]"#).await.secret);
        let registration = serde_json::to_vec(&h200_registration()).unwrap();
        let by_token = ("authorization", token.as_str());
        let register = async |headers: &[(&str, &str)]| {
            send(&app, "/api/v1/agents", headers, registration.clone()).await
        };
        register(&[by_token]).await.refusal(403, "terms_not_agreed");
        let agent: Agent = register(&[by_token, (TERMS_HEADER, IN_FORCE)]).await.json();
        assert_eq!(terms_of(&ada).await, Some(1));
        // Later requests of the agent need no header.
        assert_eq!(register(&[by_token]).await.status, 200);
        let leases = format!("/api/v1/agents/{}/leases", agent.id);
        let answer: LeaseAnswer =
            send(&app, &leases, &[by_token], br#"{"seconds":20}"#.to_vec()).await.json();
        let lease: Lease = answer.lease.unwrap();
        let results = columnar(&dataset(h200(), &[lease.work[0].problem.clone()], 1.0));
        let path = format!("{leases}/{}/results", lease.id);
        let receipt: Receipt = send(&app, &path, &[by_token], results).await.json();
        assert_eq!(receipt.licence, UploadLicence::agreed(1));
        app.end().await;
    }
    for app in TestApp::taking_uploads("terms_agents_free").await {
        let registration = serde_json::to_vec(&h200_registration()).unwrap();
        let refused = send(&app, "/api/v1/agents", &[], registration.clone()).await;
        refused.refusal(403, "terms_not_agreed");
        let agrees = (TERMS_HEADER, IN_FORCE);
        let agent: Agent = send(&app, "/api/v1/agents", &[agrees], registration).await.json();
        let leases = format!("/api/v1/agents/{}/leases", agent.id);
        let key = (AGENT_KEY, "0123456789abcdef");
        let ask = br#"{"seconds":20}"#.to_vec();
        send(&app, &leases, &[key], ask.clone()).await.refusal(403, "terms_not_agreed");
        let answer: LeaseAnswer = send(&app, &leases, &[key, agrees], ask).await.json();
        let lease = answer.lease.unwrap();
        let results = columnar(&dataset(h200(), &[lease.work[0].problem.clone()], 1.0));
        let path = format!("{leases}/{}/results", lease.id);
        send(&app, &path, &[key], results.clone()).await.refusal(403, "terms_not_agreed");
        let receipt: Receipt = send(&app, &path, &[key, agrees], results).await.json();
        assert_eq!(receipt.licence, UploadLicence::agreed(1));
        app.end().await;
    }
}

#[tokio::test]
async fn the_terms_are_shown_to_everybody() {
    let app = TestApp::public(SignUps::Invitation).await;
    let terms: Terms = app.fetch("/api/v1/terms").await;
    assert_eq!((terms.version, terms.licence.as_str()), (TERMS_VERSION, "MIT OR Apache-2.0"));
    assert_eq!(terms.text, std::fs::read_to_string("../docs/terms.md").unwrap());
    let path = terms.address.strip_prefix(&app.policy.public_url).unwrap();
    let page = Visitor::new(&app).page(path).await;
    assert!(page.contains("<h1>Terms of contributing</h1>") && !page.contains("<script"), "{page}");
    for paragraph in terms.text.split("\n\n").skip(1) {
        assert!(page.contains(&format!("<p>{}</p>", paragraph.trim())), "{paragraph}");
    }
}

#[tokio::test]
async fn the_pages_ask_and_remember() {
    let app = TestApp::public(SignUps::Open).await;
    let ada = Visitor::new(&app);
    let page = ada.page("/sign-up").await;
    assert!(page.contains(r#"name="terms" value="1">"#) && page.contains("MIT OR Apache-2.0"), "{page}");
    // The page keeps the tick after a refusal.
    let wrong = [("name", "ada"), ("password", "short"), ("terms", "1")];
    let text = String::from_utf8(ada.submit("/sign-up", &wrong).await.body).unwrap();
    assert!(text.contains(r#"name="terms" value="1" checked"#), "{text}");
    let old = [("name", "ada"), ("password", PASSWORD), ("terms", "7")];
    assert_eq!(ada.submit("/sign-up", &old).await.status, 409);
    let later = [("name", "ada"), ("password", PASSWORD)];
    assert_eq!(ada.submit("/sign-up", &later).await.status, 303);
    assert_eq!(terms_of(&ada).await, None);
    assert!(ada.page("/account").await.contains("I agree"));
    assert_eq!(ada.submit("/account/terms", &[("terms", "7")]).await.status, 409);
    assert_eq!(ada.submit("/account/terms", &[("terms", "1")]).await.header("location"), "/account");
    let page = ada.page("/account").await;
    assert!(page.contains("You agreed to version 1") && !page.contains("I agree"), "{page}");
    let bob = Visitor::new(&app);
    let ticked = [("name", "bob"), ("password", PASSWORD), ("terms", "1")];
    assert_eq!(bob.submit("/sign-up", &ticked).await.status, 303);
    assert_eq!(terms_of(&bob).await, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_and_exports_name_the_licence() {
    for app in TestApp::on_both("terms_snapshots").await {
        let root = administrator(&app).await;
        let working = tokio::spawn(worker::run(app.backend.clone(), app.stopping()));
        let stated = app.receipt(columnar(&seven())).await;
        let first = frozen(&app, &root).await;
        let agreeing = [(TERMS_HEADER, IN_FORCE)];
        let agreed: Receipt = send(&app, "/api/v1/uploads", &agreeing, file(64)).await.json();
        let manifest = async |name: &str| {
            let path = format!("/api/v1/snapshots/{name}/files/manifest.json");
            app.fetch::<SnapshotManifest>(&path).await
        };
        let licences = |manifest: &SnapshotManifest| {
            let named = manifest.uploads.iter();
            named
                .map(|upload| (UploadId::of_digest(&upload.digest), upload.licence.clone()))
                .collect::<Vec<_>>()
        };
        let before = manifest(&first.summary.name.to_string()).await;
        assert_eq!(before.licence, "MIT OR Apache-2.0");
        assert_eq!(licences(&before), [(stated.id.clone(), UploadLicence::stated())]);
        let second = frozen(&app, &root).await;
        let both = licences(&manifest(&second.summary.name.to_string()).await);
        let expected =
            [(stated.id.clone(), UploadLicence::stated()), (agreed.id.clone(), UploadLicence::agreed(1))];
        assert_eq!(both, expected);
        // A later agreement changes the next manifest, but no earlier manifest.
        send(&app, "/api/v1/uploads", &agreeing, columnar(&seven())).await.json::<Receipt>();
        let third = frozen(&app, &root).await;
        assert_eq!(third.summary.name.version, 3);
        let all = licences(&manifest(&third.summary.name.to_string()).await);
        assert!(all.iter().all(|(_, licence)| *licence == UploadLicence::agreed(1)), "{all:?}");
        assert_eq!(frozen(&app, &root).await.summary.name.version, 3);
        assert_eq!(licences(&manifest(&first.summary.name.to_string()).await), licences(&before));
        app.stop();
        working.await.unwrap();
        for path in
            ["datasets/nvidia-h200.msgpack.zst", "datasets/nvidia-h200.json", "tables/nvidia-h200.json"]
        {
            let reply = app.get(&format!("/api/v1/{path}")).await;
            assert_eq!((reply.status.as_u16(), reply.header("diode-licence")), (200, "MIT OR Apache-2.0"));
        }
        app.end().await;
    }
}

#[tokio::test]
async fn an_agreement_goes_with_its_account_and_its_uploads_stay_licensed() {
    for app in TestApp::public_on_both("terms_deleted").await {
        let ada = Visitor::signed_up(&app, "ada").await;
        let receipt: Receipt = ada.post_bytes("/api/v1/uploads", file(64)).await.json();
        assert_eq!(ada.delete_account(PASSWORD, "keep").await.status, 303);
        let kept: Receipt = app.fetch(&format!("/api/v1/uploads/{}", receipt.id)).await;
        assert_eq!((kept.licence, kept.contributor), (UploadLicence::agreed(1), None));
        let again = Visitor::new(&app);
        assert_eq!(again.sign_up_agreeing("ada", None, None).await.status, 201);
        assert_eq!(terms_of(&again).await, None);
        let store = app.backend.store.as_ref();
        let account: Account = again.get("/api/v1/account").await.json();
        store.agree(&account.id, TERMS_VERSION, Now::read()).await.unwrap();
        assert_eq!(terms_of(&again).await, Some(TERMS_VERSION));
        app.end().await;
    }
}
