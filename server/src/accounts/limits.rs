use std::time::Duration;

use diode_core::api::Account;

use super::Peer;
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::store::{LONGEST_WINDOW, Now};

/// How often something may be tried. Counted in the database, so that all servers on one database count
/// together.
pub(super) struct Limit {
    pub(super) tries: u64,
    pub(super) within: Duration,
}

const MINUTE: u64 = 60;

/// A password has at least ten characters, so it cannot be guessed at this speed.
pub(super) const SIGN_IN: Limit = Limit { tries: 10, within: Duration::from_secs(15 * MINUTE) };

/// Each costs 20 ms of a core. A university or company may share one address.
pub(super) const SIGN_INS_OF_ADDRESS: Limit = Limit { tries: 200, within: Duration::from_secs(15 * MINUTE) };

/// Each leaves a row for good.
pub(super) const SIGN_UPS_OF_ADDRESS: Limit = Limit { tries: 20, within: Duration::from_secs(60 * MINUTE) };

/// Each leaves a row for a while.
pub(super) const DEVICES_OF_ADDRESS: Limit = Limit { tries: 60, within: Duration::from_secs(15 * MINUTE) };

/// A signed-in account could otherwise allow a stranger's program by guessing its code.
pub(super) const CODES_OF_ACCOUNT: Limit = Limit { tries: 20, within: Duration::from_secs(15 * MINUTE) };

/// Each leaves a row, and costs an administrator time.
const REPORTS: Limit = Limit { tries: 20, within: LONGEST_WINDOW };

/// Counts a report of an account or, without one, of an address.
pub(crate) async fn admit_report(app: &App, account: Option<&Account>, peer: &Peer) -> ApiResult<()> {
    let whose = account.map_or_else(|| peer.0.clone(), |account| account.id.to_string());
    admit(app, &format!("reports of {whose}"), &REPORTS).await
}

/// Counts a try, and refuses it if there were too many.
pub(super) async fn admit(app: &App, subject: &str, limit: &Limit) -> ApiResult<()> {
    let now = Now::read();
    let since = now.millis() - limit.within.as_millis() as i64;
    let tries = app.backend.store.count_attempt(subject, since, now).await?;
    if tries <= limit.tries {
        return Ok(());
    }
    let minutes = limit.within.as_secs() / MINUTE;
    let message = format!("tried more than {} times; try again in {minutes} minutes", limit.tries);
    Err(ApiFault::tried_too_often(message, limit.within.as_secs() as u32))
}
