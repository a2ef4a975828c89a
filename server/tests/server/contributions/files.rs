//! Tests of the files of contributed models: they count in the quota, and a file that others need is never
//! removed.

use diode_api::ModelSummary;
use diode_core::ids::Digest;
use diode_server::blobs::BlobKind;
use diode_server::store::MAX_WAITING_MODELS;

use super::{CONTRIBUTE, contribute, file, ready};
use crate::models::summary;
use crate::publications::{problems, timed};
use crate::samples::columnar;
use crate::test_app::TestApp;
use crate::visitor::Visitor;

#[tokio::test]
async fn files_of_models_count_as_stored() {
    let measured = columnar(&timed(&problems(), true, 1.0)).len();
    let quota = measured + file(1).len() + file(2).len() - 1;
    let app = TestApp::with_quota(quota as u64).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    ready(&app, &ada).await;
    contribute(&ada, 1).await;
    assert_eq!(app.backend.store.stored_bytes().await.unwrap(), (measured + file(1).len()) as u64);
    let message = ada.post_bytes(CONTRIBUTE, file(2)).await.refusal(507, "insufficient_storage");
    assert!(message.contains("max_stored_mb"), "{message}");
    let refused = summary(&file(2)).digest;
    assert_eq!(app.backend.blobs.size(BlobKind::Model, &refused).await.unwrap(), None);
    // A file that is stored already needs no room.
    assert_eq!(ada.post_bytes(CONTRIBUTE, file(1)).await.status, 200);
}

#[tokio::test]
async fn refusing_a_model_takes_no_file_away_that_another_is_about_to_name() {
    for app in TestApp::public_on_both("refused_models").await {
        let ada = Visitor::signed_up(&app, "ada").await;
        ready(&app, &ada).await;
        for number in 0..u64::from(MAX_WAITING_MODELS) {
            contribute(&ada, number).await;
        }
        // Another account has sent the same file. The file is stored, and its row follows in a moment.
        let bytes = file(50);
        let digest = Digest::of(&bytes);
        app.backend.blobs.put(BlobKind::Model, &digest, bytes.clone().into()).await.unwrap();
        ada.post_bytes(CONTRIBUTE, bytes).await.refusal(409, "conflict");
        assert!(app.backend.blobs.size(BlobKind::Model, &digest).await.unwrap().is_some());
        app.end().await;
    }
}

/// Runs only on Postgres, where other transactions go on while one holds a file. On SQLite they wait before
/// they store anything.
#[tokio::test]
async fn a_file_that_is_removed_while_its_model_is_added_is_stored_anew() {
    let [_, app] = TestApp::public_on_both("held_models").await;
    let ada = Visitor::signed_up(&app, "ada").await;
    ready(&app, &ada).await;
    let (bytes, blobs) = (file(1), &app.backend.blobs);
    let digest = Digest::of(&bytes);
    let held = app.backend.store.hold_file(BlobKind::Model, &digest).await.unwrap();
    let removing = async {
        while blobs.size(BlobKind::Model, &digest).await.unwrap().is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        // No row names the file yet.
        assert!(!app.backend.store.names_model_file(&digest).await.unwrap());
        blobs.remove(BlobKind::Model, &digest).await.unwrap();
        drop(held);
    };
    let (reply, ()) = tokio::join!(ada.post_bytes(CONTRIBUTE, bytes), removing);
    assert_eq!(reply.status, 201);
    assert_eq!(reply.json::<ModelSummary>().digest, digest);
    assert!(blobs.size(BlobKind::Model, &digest).await.unwrap().is_some());
    app.end().await;
}
