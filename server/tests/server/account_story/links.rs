//! Tests of links that work once, and of the addresses that some of them confirm.

use diode_core::ids::AccountId;
use diode_server::mail::EmailAddress;
use diode_server::store::{Created, LinkFor, MailKind, NewAccount, Now, PasswordReset, Store};

use super::{later, millis, named, secret, start};

pub(super) async fn links_work_once(store: &Store) {
    let ada = AccountId::of(b"ada");
    let add = async |name: &str, link: LinkFor| {
        store.add_link(&secret(name), &link, start(), millis(later(60))).await.unwrap();
    };
    add("invitation", LinkFor::Account).await;
    let invitation = secret("invitation");
    assert_eq!(store.link(&invitation, start()).await.unwrap(), Some(LinkFor::Account));
    assert_eq!(store.link(&invitation, later(60)).await.unwrap(), None);
    // A taken name does not use up the invitation. A link for a password makes no account.
    let taken = NewAccount { id: AccountId::of(b"other"), ..named("ada") };
    assert_eq!(store.create_account(&taken, Some(&invitation), start()).await.unwrap(), Created::NameTaken);
    let (bob, eve) = (named("bob"), named("eve"));
    let (b, e) = tokio::join!(
        store.create_account(&bob, Some(&invitation), start()),
        store.create_account(&eve, Some(&invitation), start()),
    );
    let made = [b.unwrap(), e.unwrap()].into_iter().filter(|made| *made != Created::NoLink).count();
    assert_eq!(made, 1);

    for name in ["choose", "choose too"] {
        add(name, LinkFor::Password(ada.clone())).await;
    }
    store.add_session(&secret("open"), &ada, start(), millis(later(60))).await.unwrap();
    let late = store.set_password_by_link(&secret("choose"), "late", later(60)).await.unwrap();
    assert_eq!(late, None);
    let name = store.set_password_by_link(&secret("choose"), "chosen", start()).await.unwrap();
    let reset = PasswordReset { account: "ada".parse().unwrap(), unlinked: vec![], without_email: false };
    assert_eq!(name, Some(reset));
    assert!(store.session(&secret("open"), start()).await.unwrap().is_none());
    // The new password has ended the other link.
    assert_eq!(store.set_password_by_link(&secret("choose too"), "x", start()).await.unwrap(), None);
    let ada = store.credentials(&"ada".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(ada.password.as_deref(), Some("chosen"));
}

pub(super) async fn addresses_are_confirmed(store: &Store) {
    let ada = AccountId::of(b"ada");
    let address = |text: &str| text.parse::<EmailAddress>().unwrap();
    let (old, new) = (address("Ada@example.org"), address("ada@example.com"));
    let add = async |name: &str, link: LinkFor| {
        store.add_link(&secret(name), &link, start(), millis(later(60))).await.unwrap();
    };
    let confirm = async |name: &str, account: &AccountId, now: Now| {
        store.confirm_email(&secret(name), account, true, now).await.unwrap()
    };
    let owners = async |email: &EmailAddress| {
        let found = store.accounts_of_email(email).await.unwrap();
        found.into_iter().map(|found| found.account.id).collect::<Vec<_>>()
    };
    let choose =
        async |name: &str| store.set_password_by_link(&secret(name), "chosen", start()).await.unwrap();
    let has = async || store.credentials(&"ada".parse().unwrap()).await.unwrap().unwrap().email;

    add("old", LinkFor::Email(ada.clone(), old.clone())).await;
    assert_eq!(
        store.link(&secret("old"), start()).await.unwrap(),
        Some(LinkFor::Email(ada.clone(), old.clone()))
    );
    assert_eq!(choose("old").await, None, "it is for no password");
    add("old", LinkFor::Email(ada.clone(), old.clone())).await;
    assert_eq!(confirm("old", &AccountId::of(b"bob"), start()).await, None, "it is another's");
    assert_eq!(confirm("old", &ada, later(60)).await, None, "it has expired");
    assert!(owners(&old).await.is_empty());
    let confirmed = confirm("old", &ada, start()).await;
    assert_eq!(confirmed, Some(old.clone()));
    assert_eq!(store.claim_mail(start()).await.unwrap(), None, "there is nobody to tell");
    assert_eq!(confirm("old", &ada, start()).await, None, "it has been used");
    assert_eq!(
        (has().await, owners(&address("ada@EXAMPLE.org")).await),
        (Some(old.clone()), vec![ada.clone()])
    );

    // Links that were sent to an address stop working when the account gets another address.
    add("sent before", LinkFor::MailedPassword(ada.clone(), old.clone())).await;
    add("new", LinkFor::Email(ada.clone(), new.clone())).await;
    let confirmed = confirm("new", &ada, start()).await;
    assert_eq!(confirmed, Some(new.clone()));
    let told = store.claim_mail(start()).await.unwrap().unwrap();
    assert_eq!((told.kind, &told.to), (MailKind::AddressTakenOff, &old));
    assert!(store.remove_mail(&told).await.unwrap());
    add("on its way", LinkFor::MailedPassword(ada.clone(), old.clone())).await;
    assert_eq!((choose("sent before").await, choose("on its way").await), (None, None));

    // The address stays if the password is chosen by a link that was mailed to it. Any other link removes the
    // address.
    add("mailed", LinkFor::MailedPassword(ada.clone(), new.clone())).await;
    assert!(choose("mailed").await.is_some_and(|reset| !reset.without_email));
    assert_eq!(has().await, Some(new.clone()));
    let log = store.moderation_log(1).await.unwrap();
    assert_eq!(log[0].what, "choose the password of ada");
    add("printed", LinkFor::Password(ada.clone())).await;
    assert!(choose("printed").await.is_some_and(|reset| reset.without_email));
    assert_eq!((has().await, owners(&new).await), (None, vec![]));

    add("again", LinkFor::Email(ada.clone(), new.clone())).await;
    confirm("again", &ada, start()).await.unwrap();
    assert_eq!(store.remove_email(&ada, true, start()).await.unwrap(), Some(new.clone()));
    assert_eq!((store.remove_email(&ada, true, start()).await.unwrap(), has().await), (None, None));
    let told = store.claim_mail(start()).await.unwrap().unwrap();
    assert_eq!((told.kind, told.to, told.name.as_str()), (MailKind::AddressTakenOff, new, "ada"));
    // A server that sends no mails queues none.
    add("quietly", LinkFor::Email(ada.clone(), old.clone())).await;
    assert!(store.confirm_email(&secret("quietly"), &ada, false, start()).await.unwrap().is_some());
    assert!(store.remove_email(&ada, false, start()).await.unwrap().is_some());
    assert_eq!(store.claim_mail(start()).await.unwrap(), None);
}
