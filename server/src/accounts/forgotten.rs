//! A new password by mail, for people who have lost theirs.
//!
//! Nobody learns here who has an account or which address it has. The answer is the same for everybody. It is
//! given before accounts are looked up and mails are sent.

use diode_core::ids::Digest;

use super::Peer;
use super::email::mailer;
use super::limits::{RESETS, RESETS_OF_ACCOUNT, RESETS_OF_ADDRESS};
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::limits::admit;
use crate::mail::{EmailAddress, Mailer};
use crate::store::{Credentials, MailKind, StoreResult};

/// The most bytes of a name or an address. No valid one is longer.
const MAX_BYTES: usize = 254;

/// Takes the name of an account or an e-mail address. Sends a link to the address of that account, or to all
/// accounts with that address, if there are any.
pub(crate) async fn forgotten(app: &App, peer: &Peer, given: &str) -> ApiResult<()> {
    let mailer = mailer(app)?.clone();
    let given = given.trim().to_ascii_lowercase();
    if given.is_empty() || given.len() > MAX_BYTES {
        return Err(ApiFault::invalid("expected the name of an account or an e-mail address"));
    }
    admit(app, &format!("resets from {}", peer.0), &RESETS_OF_ADDRESS).await?;
    // The table of tries holds a digest, so that it has nobody's address.
    let subject = format!("reset of {} from {}", Digest::of(given.as_bytes()), peer.0);
    admit(app, &subject, &RESETS).await?;
    let app = app.clone();
    tokio::spawn(async move {
        if let Err(error) = send(&app, &mailer, &given).await {
            tracing::error!("links for a new password are not sent: {error}");
        }
    });
    Ok(())
}

async fn send(app: &App, mailer: &Mailer, given: &str) -> StoreResult<()> {
    for Credentials { account, disabled, email, .. } in meant(app, given).await? {
        let Some(email) = email.filter(|_| !disabled) else { continue };
        let subject = format!("mailed resets of {}", account.id);
        if admit(app, &subject, &RESETS_OF_ACCOUNT).await.is_err() {
            tracing::warn!("no more links for a new password are sent to {} for a while", account.name);
            continue;
        }
        mailer.post(MailKind::NewPassword, &account.id, &email).await?;
    }
    Ok(())
}

/// The accounts with the given name or e-mail address.
async fn meant(app: &App, given: &str) -> StoreResult<Vec<Credentials>> {
    let store = &app.backend.store;
    if let Ok(email) = given.parse::<EmailAddress>() {
        return store.accounts_of_email(&email).await;
    }
    match given.parse() {
        Ok(name) => Ok(store.credentials(&name).await?.into_iter().collect()),
        Err(_) => Ok(Vec::new()),
    }
}
