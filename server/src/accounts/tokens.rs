use diode_api::{Account, IssuedToken, NewToken, Scope};

use super::secret::{Secret, TOKEN_PREFIX, new_token_id};
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::store::{NewTokenRow, Now};

/// An account with more tokens than this has a program that asks for a new token each time.
const MAX_TOKENS: usize = 100;

/// Makes a token of an account.
pub(crate) async fn issue(app: &App, account: &Account, request: NewToken) -> ApiResult<IssuedToken> {
    let days = request.check()?;
    check_scopes(account, &request.scopes)?;
    let now = Now::read();
    if app.backend.store.tokens(&account.id).await?.len() >= MAX_TOKENS {
        return Err(ApiFault::refused(format!(
            "this account has {MAX_TOKENS} tokens already; revoke some that are no longer used"
        )));
    }
    let secret = Secret::draw(TOKEN_PREFIX).map_err(ApiFault::internal)?;
    let row = NewTokenRow {
        id: new_token_id().map_err(ApiFault::internal)?,
        secret: secret.digest(),
        account: account.id.clone(),
        name: request.name,
        scopes: request.scopes,
        expires: now.lease_end(std::time::Duration::from_secs(u64::from(days) * 24 * 60 * 60)),
    };
    let token = app.backend.store.add_token(&row, now).await?;
    Ok(IssuedToken { secret: secret.into_text(), token })
}

/// A token may do no more than its owner.
pub(super) fn check_scopes(account: &Account, scopes: &[Scope]) -> ApiResult<()> {
    if scopes.contains(&Scope::Admin) && !account.admin {
        return Err(ApiFault::forbidden(
            "scope `admin`: only an administrator of this server can give it to a token",
        ));
    }
    Ok(())
}
