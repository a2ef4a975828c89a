//! The part of the story with every method of accounts, on both databases.

mod identities;
mod links;
mod sessions;
mod uploads;

use std::time::Duration;

use diode_api::Uploads;
use diode_core::ids::{AccountId, Digest};
use diode_server::store::{Created, LinkFor, NewAccount, Now, Store};

/// A moment so long ago that every other moment of a test comes after it.
fn start() -> Now {
    Now("2026-11-20T10:00:00Z".parse().unwrap())
}

fn later(seconds: i64) -> Now {
    Now(start().0 + Duration::from_secs(seconds as u64))
}

fn millis(now: Now) -> i64 {
    now.0.as_millisecond()
}

fn secret(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

fn named(name: &str) -> NewAccount {
    let password = Some(format!("hash of {name}"));
    let id = AccountId::of(name.as_bytes());
    NewAccount { id, name: name.parse().unwrap(), password, admin: false, terms: None }
}

async fn make(store: &Store, name: &str) -> AccountId {
    let Created::Done(account) = store.create_account(&named(name), None, start()).await.unwrap() else {
        panic!("{name} was not made");
    };
    account.id
}

pub(crate) async fn accounts_live(store: &Store) {
    accounts_are_made(store).await;
    sessions::sessions_begin_and_end(store).await;
    links::links_work_once(store).await;
    identities::identities_are_linked(store).await;
    sessions::tokens_are_used_and_revoked(store).await;
    sessions::programs_wait(store).await;
    sessions::attempts_are_counted(store).await;
    uploads::terms_are_agreed_to(store).await;
    uploads::uploads_leave_with_their_account(store).await;
}

async fn accounts_are_made(store: &Store) {
    assert!(store.has_no_accounts().await.unwrap());
    for link in ["first", "also first"] {
        store.add_link(&secret(link), &LinkFor::FirstAccount, start(), millis(later(60))).await.unwrap();
    }
    // Two requests race for the first account. One gets it, and later requests get none.
    let (ada, bob) = (named("ada"), named("bob"));
    let (first, also) = (secret("first"), secret("also first"));
    let (a, b) = tokio::join!(
        store.create_account(&ada, Some(&first), start()),
        store.create_account(&bob, Some(&also), start()),
    );
    let made = [&a, &b].into_iter().filter(|made| matches!(made, Ok(Created::Done(_)))).count();
    assert_eq!(made, 1, "{a:?} {b:?}");
    for link in [&first, &also] {
        let again = store.create_account(&named("eve"), Some(link), start()).await.unwrap();
        assert_eq!(again, Created::NoLink);
    }
    let all = store.accounts().await.unwrap();
    assert_eq!((all.len(), all[0].account.admin), (1, true));
    let first = &all[0].account;
    assert_eq!(store.account(&first.id).await.unwrap().as_ref(), Some(first));
    assert_eq!(store.credentials(&first.name).await.unwrap().unwrap().account, *first);
    // The last administrator neither goes nor is disabled, not even while another one is disabled.
    assert!(!store.set_disabled(&first.id, true, false, start()).await.unwrap());
    let warden = NewAccount { admin: true, ..named("warden") };
    assert_eq!(store.delete_account(&first.id, Uploads::Keep).await.unwrap(), None);
    store.create_account(&warden, None, start()).await.unwrap();
    assert!(store.set_disabled(&warden.id, true, false, start()).await.unwrap());
    assert_eq!(store.delete_account(&first.id, Uploads::Keep).await.unwrap(), None);
    assert!(store.set_disabled(&warden.id, false, false, start()).await.unwrap());
    let (one, other) = tokio::join!(
        store.delete_account(&first.id, Uploads::Keep),
        store.delete_account(&warden.id, Uploads::Keep),
    );
    let [one, other] = [one.unwrap(), other.unwrap()].map(|files| files.is_some());
    assert!(one != other, "one of the two stays");
    if other {
        store.create_account(&warden, None, start()).await.unwrap();
        assert_eq!(store.delete_account(&first.id, Uploads::Keep).await.unwrap(), Some(Vec::new()));
    }
    assert_eq!(store.account(&first.id).await.unwrap(), None);
    assert!(store.credentials(&first.name).await.unwrap().is_none());

    make(store, "ada").await;
    let again = NewAccount { id: AccountId::of(b"another"), ..named("ada") };
    assert_eq!(store.create_account(&again, None, start()).await.unwrap(), Created::NameTaken);
    assert!(!store.has_no_accounts().await.unwrap());
}
