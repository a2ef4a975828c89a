//! Tests of contributed models whose contributor is deleted, and of contributed models in a backup.

use diode_api::{ContributionState, ModelState, ModelSummary, Uploads};
use diode_core::ids::AccountId;
use diode_server::accounts::SignUps;
use diode_server::admin::backup::{check, make, restore};
use diode_server::admin::verify;
use diode_server::backend::Backend;
use diode_server::blobs::BlobKind;
use diode_server::settings::Data;
use diode_server::store::ContributionFilter;

use super::{contribute, judge_all, own, ready, review, state};
use crate::moderation::administrator;
use crate::test_app::TestApp;
use crate::visitor::{PASSWORD, Visitor};

async fn is_there(app: &TestApp, model: &ModelSummary) -> bool {
    app.backend.blobs.size(BlobKind::Model, &model.digest).await.unwrap().is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_goes_with_its_data_takes_its_models_along() {
    for app in TestApp::public_on_both("gone_contributor").await {
        let root = administrator(&app).await;
        let (ada, bob) = (Visitor::signed_up(&app, "ada").await, Visitor::signed_up(&app, "bob").await);
        // Uploads of others stay.
        let published = ready(&app, &root).await;
        let (one, two) = (contribute(&ada, 1).await, contribute(&ada, 2).await);
        let of_bob = contribute(&bob, 3).await;
        judge_all(&app, &ada).await;
        assert_eq!(review(&root, "accept", &one).await.status, 200);
        assert_eq!(review(&root, "publish", &one).await.status, 200);
        assert_eq!(ada.delete_account(PASSWORD, "delete").await.status, 303);

        let left: Vec<ModelSummary> = app.fetch("/api/v1/models").await;
        assert_eq!((left.len(), &left[0].id, left[0].state), (1, &published.id, ModelState::Published));
        let waiting = app.backend.store.contributions(&ContributionFilter::default(), 9).await.unwrap();
        assert_eq!(waiting.iter().map(|model| &model.id).collect::<Vec<_>>(), [&of_bob.id]);
        assert!(!is_there(&app, &one).await && !is_there(&app, &two).await && is_there(&app, &of_bob).await);
        let verified = verify(&app.backend).await.unwrap();
        assert!(verified.is_clean() && verified.orphans == 0, "{verified}");
        app.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_models_stay_without_a_name_if_the_uploads_stay() {
    for app in TestApp::public_on_both("nameless_models").await {
        let root = administrator(&app).await;
        let ada = Visitor::signed_up(&app, "ada").await;
        ready(&app, &ada).await;
        let (one, two) = (contribute(&ada, 1).await, contribute(&ada, 2).await);
        judge_all(&app, &ada).await;
        assert_eq!(review(&root, "accept", &one).await.status, 200);
        let account: diode_api::Account = ada.get("/api/v1/account").await.json();
        let id: AccountId = account.id;
        let files = app.backend.store.delete_account(&id, Uploads::Keep).await.unwrap().unwrap();
        assert_eq!(files, [(BlobKind::Model, two.digest.clone())]);
        let seen: ModelSummary = app.fetch(&format!("/api/v1/models/{}", one.id)).await;
        assert_eq!((state(&seen), &seen.contribution.unwrap().by), (ContributionState::Accepted, &None));
        assert_eq!(app.backend.store.contribution(&two.id).await.unwrap(), None);
        assert_eq!(review(&root, "decline", &one).await.status, 200);
        app.end().await;
    }
}

#[tokio::test]
async fn a_backup_has_models_that_nobody_has_accepted() {
    let app = TestApp::public(SignUps::Open).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    ready(&app, &ada).await;
    let sent = contribute(&ada, 1).await;
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("backup");
    let made = make(&app.backend, &app.data.database_url, &saved).await.unwrap();
    assert!(made.blobs.iter().any(|blob| blob.digest == sent.digest), "{made}");
    assert_eq!(check(&saved).await.unwrap().1, Vec::new());
    let settings = Data {
        database_url: format!("sqlite:{}", folder.path().join("restored.db").display()),
        blobs: folder.path().join("restored"),
        ..app.data.clone()
    };
    let restored = restore(&settings, &saved).await.unwrap();
    assert!(restored.verified.is_clean(), "{restored}");
    let backend = Backend::open(&settings).await.unwrap();
    assert_eq!(backend.store.contribution(&sent.id).await.unwrap().as_ref(), Some(&own(&ada).await[0]));
    let lost = app.blobs().join("models").join(format!("{}.safetensors", sent.digest));
    std::fs::remove_file(lost).unwrap();
    assert_eq!(verify(&app.backend).await.unwrap().missing.len(), 1);
}
