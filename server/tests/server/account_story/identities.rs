//! Tests of identities: the names that a provider has for accounts' owners.

use diode_api::{Reason, Uploads};
use diode_core::ids::{AccountId, AccountName};
use diode_server::store::{
    Created, Identity, LinkFor, Linked, LinkedIdentity, NewAccount, PendingSignIn, PendingSignUp, SignedUp,
    Store, Unlinked,
};

use super::{later, millis, named, secret, start};

pub(super) async fn identities_are_linked(store: &Store) {
    let ada = AccountId::of(b"ada");
    let of =
        |issuer: &str, subject: &str| Identity { issuer: issuer.to_owned(), subject: subject.to_owned() };
    let (hers, new) = (of("https://a.example", "1"), of("https://a.example", "2"));
    let session = secret("linking");
    store.add_session(&session, &ada, start(), millis(later(60))).await.unwrap();
    let link =
        async |identity: &Identity| store.link_identity(&ada, identity, &session, start()).await.unwrap();
    assert!(store.owner_of(&hers).await.unwrap().is_none());
    assert_eq!(
        [link(&hers).await, link(&hers).await, link(&new).await],
        [Linked::Done, Linked::HasOne, Linked::HasOne]
    );
    assert_eq!(store.owner_of(&hers).await.unwrap().unwrap().account.id, ada);
    // The same subject at another issuer is another identity.
    assert!(store.owner_of(&of("https://b.example", "1")).await.unwrap().is_none());
    let since = LinkedIdentity { issuer: "https://a.example".to_owned(), since: start().rfc3339() };
    assert_eq!(store.identities(&ada).await.unwrap(), [since]);

    // Each sign-in is answered only once, and not after it has expired.
    let sign_in = PendingSignIn {
        next: Some("/device".to_owned()),
        account: Some(ada.clone()),
        invitation: Some(secret("by invitation")),
    };
    for name in ["way", "late way"] {
        store.add_openid_sign_in(&secret(name), &sign_in, start(), millis(later(60))).await.unwrap();
    }
    assert_eq!(store.take_openid_sign_in(&secret("late way"), later(60)).await.unwrap(), None);
    let way = secret("way");
    let taken =
        tokio::join!(store.take_openid_sign_in(&way, later(59)), store.take_openid_sign_in(&way, later(59)),);
    let taken: Vec<_> = [taken.0.unwrap(), taken.1.unwrap()].into_iter().flatten().collect();
    assert_eq!(taken, [sign_in]);

    // An account is made once, together with its link. A name that is taken uses up neither the sign-up nor
    // the invitation.
    store.add_link(&secret("by invitation"), &LinkFor::Account, start(), millis(later(60))).await.unwrap();
    let sign_up = PendingSignUp {
        identity: new.clone(),
        suggestion: Some("grace".to_owned()),
        next: None,
        invitation: Some(secret("by invitation")),
    };
    for name in ["name", "other name"] {
        store.add_openid_sign_up(&secret(name), &sign_up, start(), millis(later(60))).await.unwrap();
    }
    let name = secret("name");
    assert_eq!(store.openid_sign_up(&name, later(59)).await.unwrap(), Some(sign_up.clone()));
    assert_eq!(store.openid_sign_up(&name, later(60)).await.unwrap(), None);
    let choose = async |way: &str, name: &str| {
        let account = NewAccount {
            id: AccountId::of(format!("{way} {name}").as_bytes()),
            password: None,
            ..named(name)
        };
        store.create_account_by_openid(&secret(way), &account, start()).await.unwrap()
    };
    assert_eq!(choose("name", "ada").await, SignedUp::Made(Created::NameTaken));
    let SignedUp::Made(Created::Done(grace)) = choose("name", "grace").await else { panic!("no account") };
    assert_eq!(store.owner_of(&new).await.unwrap().unwrap().account, grace);
    assert_eq!(choose("name", "hopper").await, SignedUp::Unknown);
    assert_eq!(choose("other name", "hopper").await, SignedUp::Made(Created::NoLink));
    let uninvited = PendingSignUp { invitation: None, ..sign_up };
    store.add_openid_sign_up(&secret("third"), &uninvited, start(), millis(later(60))).await.unwrap();
    assert_eq!(choose("third", "hopper").await, SignedUp::IdentityTaken);
    assert!(store.credentials(&"hopper".parse().unwrap()).await.unwrap().is_none());

    let unlink =
        async |account: &AccountId| store.unlink_identity(account, "https://a.example").await.unwrap();
    assert_eq!(link(&new).await, Linked::HasOne);
    assert_eq!(unlink(&grace.id).await, Unlinked::IsLast);
    assert_eq!([unlink(&ada).await, unlink(&ada).await], [Unlinked::Done, Unlinked::NotLinked]);
    assert_eq!(link(&new).await, Linked::Taken);
    store.delete_account(&grace.id, Uploads::Keep).await.unwrap();
    assert!(store.owner_of(&new).await.unwrap().is_none());
    identities_are_taken_off(store, &ada, &hers).await;
}

/// A new password removes all identities of an account. An administrator can remove a single identity.
async fn identities_are_taken_off(store: &Store, ada: &AccountId, hers: &Identity) {
    let link = async |session: &str| store.link_identity(ada, hers, &secret(session), start()).await.unwrap();
    let logged = async || store.moderation_log(1).await.unwrap().remove(0);
    assert_eq!(link("linking").await, Linked::Done);
    let reset = secret("reset");
    store.add_link(&reset, &LinkFor::Password(ada.clone()), start(), millis(later(60))).await.unwrap();
    let done = store.set_password_by_link(&reset, "chosen", start()).await.unwrap().unwrap();
    assert_eq!(done.unlinked, ["https://a.example"]);
    assert!(store.owner_of(hers).await.unwrap().is_none());
    let entry = logged().await;
    assert_eq!((entry.who.as_str(), entry.what.as_str()), ("ada", "unlink ada from https://a.example"));
    // An older session can no longer link an identity.
    assert_eq!(link("linking").await, Linked::SignedOut);

    let name: AccountName = "ada".parse().unwrap();
    let why: Reason = "a stranger".parse().unwrap();
    let take = async |name: &AccountName, issuer: &str| {
        store.remove_identity(name, issuer, &why, "root", start()).await.unwrap()
    };
    store.add_session(&secret("another"), ada, start(), millis(later(60))).await.unwrap();
    assert_eq!(link("another").await, Linked::Done);
    assert!(!take(&name, "https://b.example").await);
    assert!(!take(&name, "\0").await && !take(&"nobody".parse().unwrap(), "https://a.example").await);
    assert!(take(&name, "https://a.example").await);
    assert!(store.owner_of(hers).await.unwrap().is_none());
    assert!(store.session(&secret("another"), start()).await.unwrap().is_none());
    let entry = logged().await;
    assert_eq!(
        [entry.who, entry.what, entry.why],
        ["root", "unlink ada from https://a.example", "a stranger"]
    );
}
