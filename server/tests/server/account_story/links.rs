//! Tests of links that work once.

use diode_core::ids::AccountId;
use diode_server::store::{Created, LinkFor, NewAccount, PasswordReset, Store};

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
    let reset = PasswordReset { account: "ada".parse().unwrap(), unlinked: vec![] };
    assert_eq!(name, Some(reset));
    assert!(store.session(&secret("open"), start()).await.unwrap().is_none());
    // The new password has ended the other link.
    assert_eq!(store.set_password_by_link(&secret("choose too"), "x", start()).await.unwrap(), None);
    let ada = store.credentials(&"ada".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(ada.password.as_deref(), Some("chosen"));
}
