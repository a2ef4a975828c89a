//! Tests of mails that wait to be sent.

use diode_api::Uploads;
use diode_core::ids::AccountId;
use diode_server::mail::EmailAddress;
use diode_server::store::{ClaimedMail, LinkFor, MAIL_LEASE, MAX_WAITING_MAILS, MailKind, Now, Store};

use super::{later, make, millis, secret, start};

async fn claim(store: &Store, now: Now) -> Option<ClaimedMail> {
    store.claim_mail(now).await.unwrap()
}

pub(super) async fn mails_wait(store: &Store) {
    let zoe = make(store, "zoe").await;
    let to: EmailAddress = "zoe@example.org".parse().unwrap();
    let add = async |account: &AccountId, kind: MailKind, now: Now| {
        store.add_mail(kind, account, &to, now).await.unwrap()
    };
    // Removes the mails that earlier parts of the story left.
    while let Some(mail) = claim(store, later(1_000_000)).await {
        store.remove_mail(&mail).await.unwrap();
    }
    assert!(add(&zoe, MailKind::NewPassword, start()).await);
    let first = claim(store, start()).await.unwrap();
    let expected = ClaimedMail {
        position: first.position,
        kind: MailKind::NewPassword,
        account: zoe.clone(),
        name: "zoe".parse().unwrap(),
        to: to.clone(),
        asked_at: millis(start()),
        expires: millis(later(3600)),
        attempt: 1,
    };
    assert_eq!(first, expected);

    // As long as a claim lasts, nobody else gets the mail. Afterwards another server gets it, and the first
    // claim is no longer valid.
    let lease = MAIL_LEASE.as_secs() as i64;
    assert_eq!(claim(store, later(lease - 1)).await, None);
    let second = claim(store, later(lease)).await.unwrap();
    assert_eq!(second, ClaimedMail { attempt: 2, ..expected });
    assert!(!store.postpone_mail(&first, millis(start())).await.unwrap());
    assert!(!store.remove_mail(&first).await.unwrap());
    assert!(store.postpone_mail(&second, millis(later(500))).await.unwrap());
    assert_eq!(claim(store, later(499)).await, None);
    let third = claim(store, later(500)).await.unwrap();
    assert!(store.remove_mail(&third).await.unwrap());
    assert!(!store.remove_mail(&third).await.unwrap());
    assert_eq!(store.figures(start()).await.unwrap().waiting_mails, 0);

    each_is_claimed_once(store, &zoe, &to).await;
    links_take_their_mails_along(store, &zoe, &to).await;

    for _ in 0..MAX_WAITING_MAILS {
        assert!(add(&zoe, MailKind::Confirmation, start()).await);
    }
    assert!(!add(&zoe, MailKind::Confirmation, start()).await);
    assert_eq!(store.figures(start()).await.unwrap().waiting_mails, u64::from(MAX_WAITING_MAILS));
    store.delete_account(&zoe, Uploads::Keep).await.unwrap();
    assert_eq!(store.figures(start()).await.unwrap().waiting_mails, 0);
}

/// Each mail is claimed once, even if several servers look at the same moment.
async fn each_is_claimed_once(store: &Store, account: &AccountId, to: &EmailAddress) {
    for _ in 0..12 {
        store.add_mail(MailKind::Confirmation, account, to, start()).await.unwrap();
    }
    let all = async || {
        let mut claimed = Vec::new();
        while let Some(mail) = claim(store, start()).await {
            claimed.push(mail);
        }
        claimed
    };
    let (a, b, c) = tokio::join!(all(), all(), all());
    let claimed = [a, b, c].concat();
    let mut positions: Vec<i64> = claimed.iter().map(|mail| mail.position).collect();
    positions.sort_unstable();
    positions.dedup();
    assert_eq!((positions.len(), claimed.len()), (12, 12));
    for mail in &claimed {
        assert!(store.remove_mail(mail).await.unwrap());
    }
}

/// A link that no longer works is not sent. The note about a removed address is sent all the same.
async fn links_take_their_mails_along(store: &Store, account: &AccountId, to: &EmailAddress) {
    let wait = async || {
        for kind in [MailKind::NewPassword, MailKind::Confirmation, MailKind::AddressTakenOff] {
            store.add_mail(kind, account, to, start()).await.unwrap();
        }
    };
    let is_only_the_last_left = async || {
        let mail = claim(store, start()).await.unwrap();
        assert_eq!((mail.kind, claim(store, start()).await), (MailKind::AddressTakenOff, None));
        assert!(store.remove_mail(&mail).await.unwrap());
    };
    let add = async |name: &str, link: LinkFor| {
        store.add_link(&secret(name), &link, start(), millis(later(60))).await.unwrap();
    };
    wait().await;
    add("of an operator", LinkFor::Password(account.clone())).await;
    assert!(store.set_password_by_link(&secret("of an operator"), "new", start()).await.unwrap().is_some());
    is_only_the_last_left().await;

    wait().await;
    add("confirmed", LinkFor::Email(account.clone(), to.clone())).await;
    assert!(store.confirm_email(&secret("confirmed"), account, true, start()).await.unwrap().is_some());
    is_only_the_last_left().await;

    wait().await;
    assert!(store.remove_email(account, false, start()).await.unwrap().is_some());
    is_only_the_last_left().await;
}
