use diode_api::Account;

use crate::app::App;
use crate::http::ApiResult;
use crate::store::Now;

/// Writes to the log what an account did to others, for actions that ask for no reason.
pub(crate) async fn write_down(app: &App, account: Option<&Account>, what: &str) -> ApiResult<()> {
    let who = account.map_or("nobody", |account| account.name.as_str());
    Ok(app.backend.store.write_down(what, "over the web", who, Now::read()).await?)
}
