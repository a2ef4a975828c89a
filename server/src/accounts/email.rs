//! The e-mail address of an account. Its owner gives it together with the password. The address counts once the
//! owner, signed in, has followed a link that was mailed to it. So a mistyped address lets nobody else into the
//! account.

use diode_api::Password;
use diode_core::ids::Digest;

use super::confirm::confirm;
use super::limits::CONFIRMATIONS;
use super::secret::digest_of;
use super::{Peer, SignedIn};
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::limits::admit;
use crate::mail::{EmailAddress, Mailer};
use crate::store::{MailKind, Now};

/// Sends a link to an address. By following it the owner of an account shows that mails arrive there.
pub(crate) async fn ask_to_confirm(
    app: &App,
    peer: &Peer,
    caller: &SignedIn,
    email: &EmailAddress,
    password: Option<Password>,
) -> ApiResult<()> {
    let mailer = mailer(app)?;
    let account = &caller.account;
    confirm(app, peer, caller, password).await?;
    admit(app, &format!("confirmations of {}", account.id), &CONFIRMATIONS).await?;
    // The limit is per address, since a stranger may make many accounts. The table of tries holds the address's
    // digest, not the address.
    let address = Digest::of(email.as_str().to_ascii_lowercase().as_bytes());
    admit(app, &format!("confirmations to {address}"), &CONFIRMATIONS).await?;
    if !mailer.post(MailKind::Confirmation, &account.id, email).await? {
        return Err(ApiFault::busy("too many mails wait at the moment; try again later"));
    }
    Ok(())
}

/// Gives an account the address that a link was sent to. A mail tells the account's previous address.
pub(crate) async fn confirm_email(app: &App, caller: &SignedIn, link: &str) -> ApiResult<EmailAddress> {
    let account = &caller.account.id;
    let (store, tells) = (&app.backend.store, app.mailer.is_some());
    let email = store.confirm_email(&digest_of(link), account, tells, Now::read()).await?;
    send_soon(app);
    email.ok_or_else(|| {
        ApiFault::forbidden(
            "this link does not work: it has been used, has expired or is another account's; ask for another \
             at /account",
        )
    })
}

/// Takes the address off an account. A mail tells that address.
pub(crate) async fn remove_email(
    app: &App,
    peer: &Peer,
    caller: &SignedIn,
    password: Option<Password>,
) -> ApiResult<()> {
    confirm(app, peer, caller, password).await?;
    let tells = app.mailer.is_some();
    app.backend.store.remove_email(&caller.account.id, tells, Now::read()).await?;
    send_soon(app);
    Ok(())
}

/// Makes the mailer look at once for mails that wait.
fn send_soon(app: &App) {
    if let Some(mailer) = &app.mailer {
        mailer.look();
    }
}

/// What sends mails, or an error if this server sends none.
pub(super) fn mailer(app: &App) -> ApiResult<&Mailer> {
    app.mailer.as_ref().ok_or_else(|| {
        ApiFault::not_found("this server sends no mails; ask whoever runs it for a link to choose a password")
    })
}
