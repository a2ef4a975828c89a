//! Tests of the terms that uploads are given under, and of what happens to uploads when their account is
//! deleted.

use diode_api::{Agreement, UploadLicence, Uploads};
use diode_core::ids::AccountId;
use diode_server::admin::verify_entries;
use diode_server::blobs::BlobKind;
use diode_server::store::{Created, NewAccount, NewUpload, Store, View};

use super::{later, make, named, start};
use crate::samples::{dataset, h200, mm};
use crate::story::upload;

pub(super) async fn terms_are_agreed_to(store: &Store) {
    let ada = AccountId::of(b"ada");
    let terms = async || store.account(&ada).await.unwrap().unwrap().terms;
    assert_eq!(terms().await, None);
    store.agree(&ada, 1, later(10)).await.unwrap();
    let first = Agreement { version: 1, agreed_at: later(10).rfc3339() };
    assert_eq!(terms().await, Some(first.clone()));
    // The newest version counts, with the time at which the account first agreed to it.
    store.agree(&ada, 1, later(20)).await.unwrap();
    assert_eq!(terms().await, Some(first));
    store.agree(&ada, 3, later(30)).await.unwrap();
    store.agree(&ada, 2, later(40)).await.unwrap();
    assert_eq!(terms().await, Some(Agreement { version: 3, agreed_at: later(30).rfc3339() }));
    assert!(store.agree(&AccountId::of(b"nobody"), 1, start()).await.is_err());

    let new = NewAccount { terms: Some(1), ..named("agreeing") };
    let Created::Done(made) = store.create_account(&new, None, later(50)).await.unwrap() else {
        panic!("it was not made");
    };
    assert_eq!(made.terms, Some(Agreement { version: 1, agreed_at: later(50).rfc3339() }));
    assert_eq!(store.account(&made.id).await.unwrap(), Some(made.clone()));
    store.delete_account(&made.id, Uploads::Keep).await.unwrap();

    // The licence of an upload follows from the newest terms that its sender has agreed to for these bytes.
    let mut sent = upload(&dataset(h200(), &[mm(640, 640, 640)], 1.0), &[]);
    (sent.account, sent.licence) = (Some(ada.clone()), UploadLicence::agreed(1));
    let receipt = store.store_upload(&sent).await.unwrap();
    assert_eq!(receipt.licence, UploadLicence::agreed(1));
    let licence = async || store.receipt(&sent.id).await.unwrap().unwrap().licence;
    let again = async |account: &AccountId, licence: UploadLicence| {
        assert!(store.add_sender(&sent.id, Some(account), &licence).await.unwrap());
    };
    again(&ada, UploadLicence::stated()).await;
    assert_eq!(licence().await, UploadLicence::agreed(1));
    again(&ada, UploadLicence::agreed(2)).await;
    again(&ada, UploadLicence::agreed(1)).await;
    assert_eq!(licence().await, UploadLicence::agreed(2));
    // Another account's agreement counts only once the upload belongs to that account.
    let dora = make(store, "dora").await;
    again(&dora, UploadLicence::stated()).await;
    again(&dora, UploadLicence::agreed(3)).await;
    assert!(store.add_sender(&sent.id, None, &UploadLicence::agreed(4)).await.unwrap());
    assert_eq!(licence().await, UploadLicence::agreed(2));
    let erna = make(store, "erna").await;
    let hers = NewUpload { account: Some(erna.clone()), licence: UploadLicence::agreed(5), ..sent.clone() };
    assert!(store.store_upload(&hers).await.unwrap().already_stored);
    assert_eq!(licence().await, UploadLicence::agreed(2));
    let both = [(&dora, 3), (&erna, 5)];
    let (next, version) = both.into_iter().min().unwrap();
    let gone = store.account(&ada).await.unwrap().unwrap();
    store.delete_account(&ada, Uploads::Delete).await.unwrap();
    let receipt = store.receipt(&sent.id).await.unwrap().unwrap();
    assert_eq!(receipt.contributor, store.account(next).await.unwrap().map(|account| account.name));
    assert_eq!(receipt.licence, UploadLicence::agreed(version));
    for account in [&dora, &erna] {
        store.delete_account(account, Uploads::Delete).await.unwrap();
    }
    assert_eq!(store.receipt(&sent.id).await.unwrap(), None);
    // The next part of the story needs the account again.
    assert_eq!(make(store, gone.name.as_str()).await, ada);
}

pub(super) async fn uploads_leave_with_their_account(store: &Store) {
    let (ada, bob) = (AccountId::of(b"ada"), make(store, "carl").await);
    let send = async |account: &AccountId, m: u64, factor: f64| {
        let mut upload = upload(&dataset(h200(), &[mm(m, 768, 768)], factor), &[]);
        upload.account = Some(account.clone());
        store.store_upload(&upload).await.unwrap();
        upload
    };
    let (hers, also_hers) = (send(&ada, 768, 1.0).await, send(&ada, 1536, 1.0).await);
    let his = send(&bob, 768, 1.5).await;
    let view = |m: u64| View {
        hardware: h200().slug,
        problem: mm(m, 768, 768).id(),
        method: diode_core::Method::Unspecified,
    };
    let entry = async |m: u64| store.board_entry(&view(m)).await.unwrap();
    let (with_both, before) =
        (entry(768).await.unwrap(), store.hardware_summary(&h200().slug).await.unwrap().unwrap());
    assert_eq!(with_both.solutions, 2);
    let mut files = store.delete_account(&ada, Uploads::Delete).await.unwrap().unwrap();
    files.sort();
    let mut sent = [hers.digest.clone(), also_hers.digest].map(|digest| (BlobKind::Upload, digest));
    sent.sort();
    assert_eq!(files, sent);
    assert_eq!(store.receipt(&hers.id).await.unwrap(), None);
    let alone = entry(768).await.unwrap();
    assert!(alone.solutions == 1 && alone.best_us > with_both.best_us, "{alone:?}");
    assert_eq!(entry(1536).await, None);
    let after = store.hardware_summary(&h200().slug).await.unwrap().unwrap();
    assert_eq!(after.solutions, before.solutions - 2);
    // The uploads that stay belong to no account.
    assert_eq!(store.delete_account(&bob, Uploads::Keep).await.unwrap(), Some(Vec::new()));
    assert!(store.receipt(&his.id).await.unwrap().is_some());
    let verified = verify_entries(store).await.unwrap();
    assert!(verified.differences.is_empty(), "{verified}");
}
