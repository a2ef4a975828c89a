//! The part of the story that calls every method of accounts, told to both databases.

use std::time::Duration;

use diode_core::api::{Agreement, LinkedIdentity, Reason, Scope, UploadLicence, Uploads};
use diode_core::ids::{AccountId, AccountName, Digest, TokenId};
use diode_server::admin::verify_entries;
use diode_server::blobs::BlobKind;
use diode_server::mail::EmailAddress;
use diode_server::store::{
    ConfirmedEmail, Created, DeviceAnswer, Identity, LONGEST_WINDOW, LinkFor, Linked, NewAccount,
    NewTokenRow, NewUpload, Now, OpenIdSignIn, OpenIdSignUp, PasswordReset, SignedUp, Store, Tries, Unlinked,
    View, WaitingDevice,
};

use crate::samples::{dataset, h200, mm};
use crate::story::upload;

/// Long enough ago that all of a test lies after it.
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

async fn make(store: &dyn Store, name: &str) -> AccountId {
    let Created::Done(account) = store.create_account(&named(name), None, start()).await.unwrap() else {
        panic!("{name} was not made");
    };
    account.id
}

pub(crate) async fn accounts_live(store: &dyn Store) {
    accounts_are_made(store).await;
    sessions_begin_and_end(store).await;
    links_work_once(store).await;
    addresses_are_confirmed(store).await;
    identities_are_linked(store).await;
    tokens_are_used_and_revoked(store).await;
    programs_wait(store).await;
    attempts_are_counted(store).await;
    terms_are_agreed_to(store).await;
    uploads_leave_with_their_account(store).await;
}

async fn accounts_are_made(store: &dyn Store) {
    assert!(store.has_no_accounts().await.unwrap());
    for link in ["first", "also first"] {
        store.add_link(&secret(link), &LinkFor::FirstAccount, start(), millis(later(60))).await.unwrap();
    }
    // Two race for the first account: one gets it, and later ones get none.
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
    store.delete_account(&first.id, Uploads::Keep).await.unwrap();
    assert_eq!(store.account(&first.id).await.unwrap(), None);
    assert!(store.credentials(&first.name).await.unwrap().is_none());

    make(store, "ada").await;
    let again = NewAccount { id: AccountId::of(b"another"), ..named("ada") };
    assert_eq!(store.create_account(&again, None, start()).await.unwrap(), Created::NameTaken);
    assert!(!store.has_no_accounts().await.unwrap());
}

async fn sessions_begin_and_end(store: &dyn Store) {
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

    store.set_disabled(&ada, true, start()).await.unwrap();
    assert!(store.credentials(&name).await.unwrap().unwrap().disabled);
    begin("four").await;
    assert!(!lives("two", start()).await && !lives("four", start()).await);
    store.set_disabled(&ada, false, start()).await.unwrap();
    assert!(!lives("four", start()).await, "it began while the account was disabled");
    begin("five").await;
    assert!(lives("five", start()).await);
}

async fn links_work_once(store: &dyn Store) {
    let ada = AccountId::of(b"ada");
    let add = async |name: &str, link: LinkFor| {
        store.add_link(&secret(name), &link, start(), millis(later(60))).await.unwrap();
    };
    add("invitation", LinkFor::Account).await;
    let invitation = secret("invitation");
    assert_eq!(store.link(&invitation, start()).await.unwrap(), Some(LinkFor::Account));
    assert_eq!(store.link(&invitation, later(60)).await.unwrap(), None);
    // A name that is taken does not use it up, and a link for a password makes no account.
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
    // The other link ended with it.
    assert_eq!(store.set_password_by_link(&secret("choose too"), "x", start()).await.unwrap(), None);
    let ada = store.credentials(&"ada".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(ada.password.as_deref(), Some("chosen"));
}

async fn addresses_are_confirmed(store: &dyn Store) {
    let ada = AccountId::of(b"ada");
    let address = |text: &str| text.parse::<EmailAddress>().unwrap();
    let (old, new) = (address("Ada@example.org"), address("ada@example.com"));
    let add = async |name: &str, link: LinkFor| {
        store.add_link(&secret(name), &link, start(), millis(later(60))).await.unwrap();
    };
    let confirm = async |name: &str, account: &AccountId, now: Now| {
        store.confirm_email(&secret(name), account, now).await.unwrap()
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
    assert_eq!(confirmed, Some(ConfirmedEmail { email: old.clone(), earlier: None }));
    assert_eq!(confirm("old", &ada, start()).await, None, "it has been used");
    assert_eq!(
        (has().await, owners(&address("ada@EXAMPLE.org")).await),
        (Some(old.clone()), vec![ada.clone()])
    );

    // Links that were sent to one address work no longer once there is another.
    add("sent before", LinkFor::MailedPassword(ada.clone(), old.clone())).await;
    add("new", LinkFor::Email(ada.clone(), new.clone())).await;
    let confirmed = confirm("new", &ada, start()).await;
    assert_eq!(confirmed, Some(ConfirmedEmail { email: new.clone(), earlier: Some(old.clone()) }));
    add("on its way", LinkFor::MailedPassword(ada.clone(), old.clone())).await;
    assert_eq!((choose("sent before").await, choose("on its way").await), (None, None));

    // A link that was sent there shows that the address is the owner's; a link of somebody else's does not.
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
    assert_eq!(store.remove_email(&ada, start()).await.unwrap(), Some(new));
    assert_eq!((store.remove_email(&ada, start()).await.unwrap(), has().await), (None, None));
}

async fn identities_are_linked(store: &dyn Store) {
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
    // The same name of another issuer is another identity.
    assert!(store.owner_of(&of("https://b.example", "1")).await.unwrap().is_none());
    let since = LinkedIdentity { issuer: "https://a.example".to_owned(), since: start().rfc3339() };
    assert_eq!(store.identities(&ada).await.unwrap(), [since]);

    // A sign-in is answered once, and in time.
    let sign_in = OpenIdSignIn {
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

    // An account is made once, with its link; a name that is taken leaves the sign-up and the invitation.
    store.add_link(&secret("by invitation"), &LinkFor::Account, start(), millis(later(60))).await.unwrap();
    let sign_up = OpenIdSignUp {
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
    let uninvited = OpenIdSignUp { invitation: None, ..sign_up };
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

/// By a new password, and by an administrator.
async fn identities_are_taken_off(store: &dyn Store, ada: &AccountId, hers: &Identity) {
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
    // What was on its way to be linked by an older session is not linked after it.
    assert_eq!(link("linking").await, Linked::SignedOut);

    let name: AccountName = "ada".parse().unwrap();
    let why: Reason = "a stranger".parse().unwrap();
    let take = async |name: &AccountName, issuer: &str| {
        store.take_identity(name, issuer, &why, "root", start()).await.unwrap()
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

async fn tokens_are_used_and_revoked(store: &dyn Store) {
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
    store.set_disabled(&ada, true, start()).await.unwrap();
    assert!(store.use_token(&row.secret, later(90)).await.unwrap().is_none(), "disabled");
    store.set_disabled(&ada, false, start()).await.unwrap();
    assert!(!store.revoke_token(&stranger, &row.id).await.unwrap(), "not theirs");
    assert!(store.revoke_token(&ada, &row.id).await.unwrap());
    assert!(!store.revoke_token(&ada, &row.id).await.unwrap());
    assert!(store.use_token(&row.secret, later(90)).await.unwrap().is_none(), "revoked");
}

async fn programs_wait(store: &dyn Store) {
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

async fn attempts_are_counted(store: &dyn Store) {
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
    // A new subject with a short window leaves those with longer ones alone.
    let count_day = async |now: Now| {
        store.count_attempt("day", millis(now) - LONGEST_WINDOW.as_millis() as i64, now).await.unwrap().count
    };
    assert_eq!(count_day(start()).await, 1);
    assert_eq!(count("z", later(900)).await, 1);
    assert_eq!(count_day(later(901)).await, 2);
}

async fn terms_are_agreed_to(store: &dyn Store) {
    let ada = AccountId::of(b"ada");
    let terms = async || store.account(&ada).await.unwrap().unwrap().terms;
    assert_eq!(terms().await, None);
    store.agree(&ada, 1, later(10)).await.unwrap();
    let first = Agreement { version: 1, agreed_at: later(10).rfc3339() };
    assert_eq!(terms().await, Some(first.clone()));
    // The first time counts, and the newest version.
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

    // An upload is given under what its sender has agreed to, the newest that holds for these bytes.
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
    // Another account's agreement is its own, and counts once the upload is its own.
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
    // The next chapter goes on with her.
    assert_eq!(make(store, gone.name.as_str()).await, ada);
}

async fn uploads_leave_with_their_account(store: &dyn Store) {
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
    let mut files = store.delete_account(&ada, Uploads::Delete).await.unwrap();
    files.sort();
    let mut sent = [hers.digest.clone(), also_hers.digest].map(|digest| (BlobKind::Upload, digest));
    sent.sort();
    assert_eq!(files, sent);
    assert_eq!(store.receipt(&hers.id).await.unwrap(), None);
    let alone = entry(768).await.unwrap();
    assert!(alone.solutions == 1 && alone.best_ns > with_both.best_ns, "{alone:?}");
    assert_eq!(entry(1536).await, None);
    let after = store.hardware_summary(&h200().slug).await.unwrap().unwrap();
    assert_eq!(after.solutions, before.solutions - 2);
    // The uploads that stay belong to no account.
    assert_eq!(store.delete_account(&bob, Uploads::Keep).await.unwrap(), []);
    assert!(store.receipt(&his.id).await.unwrap().is_some());
    let verified = verify_entries(store).await.unwrap();
    assert!(verified.differences.is_empty(), "{verified}");
}
