//! Tests of sessions, tokens, programs that wait for a token, and counts of tries.

use diode_api::Scope;
use diode_core::ids::{AccountId, AccountName, TokenId};
use diode_server::store::{DeviceAnswer, LONGEST_WINDOW, NewTokenRow, Now, Store, Tries, WaitingDevice};

use super::{later, millis, secret, start};

pub(super) async fn sessions_begin_and_end(store: &Store) {
    let ada = AccountId::of(b"ada");
    let begin = async |name: &str| {
        store.add_session(&secret(name), &ada, start(), millis(later(60))).await.unwrap();
    };
    let lives = async |name: &str, now: Now| store.session(&secret(name), now).await.unwrap().is_some();
    for name in ["one", "two", "three"] {
        begin(name).await;
    }
    assert!(lives("one", later(59)).await && !lives("one", later(60)).await && !lives("none", start()).await);
    store.end_session(&secret("one")).await.unwrap();
    assert!(!lives("one", start()).await && lives("two", start()).await);
    assert_eq!(store.session_end(&secret("two")).await.unwrap(), Some(millis(later(60))));
    assert_eq!(store.session_end(&secret("one")).await.unwrap(), None);
    store.set_password(&ada, "another hash", Some(&secret("two"))).await.unwrap();
    assert!(lives("two", start()).await && !lives("three", start()).await);
    let name: AccountName = "ada".parse().unwrap();
    let ada_now = store.credentials(&name).await.unwrap().unwrap();
    assert_eq!((ada_now.password.as_deref(), ada_now.disabled), (Some("another hash"), false));

    store.set_disabled(&ada, true, false, start()).await.unwrap();
    assert!(store.credentials(&name).await.unwrap().unwrap().disabled);
    begin("four").await;
    assert!(!lives("two", start()).await && !lives("four", start()).await);
    store.set_disabled(&ada, false, false, start()).await.unwrap();
    assert!(!lives("four", start()).await, "it began while the account was disabled");
    begin("five").await;
    assert!(lives("five", start()).await);
}

pub(super) async fn tokens_are_used_and_revoked(store: &Store) {
    let (ada, stranger) = (AccountId::of(b"ada"), AccountId::of(b"nobody"));
    let row = NewTokenRow {
        id: TokenId::of(b"one"),
        secret: secret("token"),
        account: ada.clone(),
        name: "gpu01 \u{2603}".to_owned(),
        scopes: vec![Scope::Upload, Scope::Train],
        expires: millis(later(600)),
    };
    let made = store.add_token(&row, start()).await.unwrap();
    assert_eq!((made.expires_at.as_str(), &made.used_at), ("2026-11-20T10:10:00Z", &None));
    assert_eq!(store.tokens(&ada).await.unwrap(), [made]);
    let (account, token) = store.use_token(&row.secret, later(10)).await.unwrap().unwrap();
    assert_eq!((account.id, token.scopes), (ada.clone(), row.scopes.clone()));
    let used = async || store.tokens(&ada).await.unwrap()[0].used_at.clone().unwrap();
    assert_eq!(used().await, "2026-11-20T10:00:10Z");
    store.use_token(&row.secret, later(60)).await.unwrap().unwrap();
    assert_eq!(used().await, "2026-11-20T10:00:10Z", "known to the minute");
    store.use_token(&row.secret, later(80)).await.unwrap().unwrap();
    assert_eq!(used().await, "2026-11-20T10:01:20Z");
    assert!(store.use_token(&row.secret, later(600)).await.unwrap().is_none(), "expired");
    assert!(store.use_token(&secret("other"), start()).await.unwrap().is_none());
    store.set_disabled(&ada, true, false, start()).await.unwrap();
    assert!(store.use_token(&row.secret, later(90)).await.unwrap().is_none(), "disabled");
    store.set_disabled(&ada, false, false, start()).await.unwrap();
    assert!(!store.revoke_token(&stranger, &row.id).await.unwrap(), "not theirs");
    assert!(store.revoke_token(&ada, &row.id).await.unwrap());
    assert!(!store.revoke_token(&ada, &row.id).await.unwrap());
    assert!(store.use_token(&row.secret, later(90)).await.unwrap().is_none(), "revoked");
}

pub(super) async fn programs_wait(store: &Store) {
    let ada = AccountId::of(b"ada");
    let device = |code: &str| WaitingDevice {
        secret: secret(code),
        user_code: code.to_owned(),
        name: "diode on gpu01".to_owned(),
        scopes: vec![Scope::Upload],
    };
    for code in ["BCDF-GHJK", "LMNP-QRST"] {
        store.add_device(&device(code), start(), millis(later(60))).await.unwrap();
    }
    let (first, second) = (device("BCDF-GHJK"), device("LMNP-QRST"));
    let poll = async |device: &WaitingDevice| store.poll_device(&device.secret, start()).await.unwrap();
    assert_eq!(poll(&first).await, DeviceAnswer::Waiting);
    assert_eq!(store.poll_device(&first.secret, later(60)).await.unwrap(), DeviceAnswer::Unknown);
    assert_eq!(store.waiting_device("BCDF-GHJK", start()).await.unwrap(), Some(first.clone()));
    assert_eq!(store.waiting_device("BCDF-GHJK", later(60)).await.unwrap(), None);
    assert!(!store.answer_device("XXXX-XXXX", Some(&ada), start()).await.unwrap());
    assert!(store.answer_device("BCDF-GHJK", Some(&ada), start()).await.unwrap());
    assert!(!store.answer_device("BCDF-GHJK", None, start()).await.unwrap(), "answered already");
    assert_eq!(store.waiting_device("BCDF-GHJK", start()).await.unwrap(), None);
    let answers = tokio::join!(poll(&first), poll(&first));
    let allowed = [answers.0, answers.1].into_iter().filter(|a| matches!(a, DeviceAnswer::Allowed(..)));
    let allowed: Vec<_> = allowed.collect();
    assert!(matches!(&allowed[..], [DeviceAnswer::Allowed(by, what)] if by.id == ada && *what == first));
    assert_eq!(poll(&first).await, DeviceAnswer::Unknown);
    assert!(store.answer_device("LMNP-QRST", None, start()).await.unwrap());
    assert_eq!(poll(&second).await, DeviceAnswer::Unknown);
}

pub(super) async fn attempts_are_counted(store: &Store) {
    let count = async |subject: &str, now: Now| {
        store.count_attempt(subject, millis(now) - 60_000, now).await.unwrap().count
    };
    let tries =
        tokio::join!(count("x", start()), count("x", start()), count("x", start()), count("y", start()));
    let mut tries = [tries.0, tries.1, tries.2, tries.3];
    tries.sort_unstable();
    assert_eq!(tries, [1, 1, 2, 3]);
    assert_eq!(count("x", later(30)).await, 4);
    let tries = store.count_attempt("x", millis(start()), later(40)).await.unwrap();
    assert_eq!(tries, Tries { count: 5, since: millis(start()) }, "the window begins with the first try");
    assert_eq!(count("x", later(61)).await, 1, "the first try is long ago");
    store.forget_attempts("x").await.unwrap();
    assert_eq!(count("x", later(61)).await, 1);
    // A new subject with a short window does not remove subjects with longer windows.
    let count_day = async |now: Now| {
        store.count_attempt("day", millis(now) - LONGEST_WINDOW.as_millis() as i64, now).await.unwrap().count
    };
    assert_eq!(count_day(start()).await, 1);
    assert_eq!(count("z", later(900)).await, 1);
    assert_eq!(count_day(later(901)).await, 2);
}
