use std::time::Duration;

use diode_api::Account;

use super::Peer;
use crate::app::App;
use crate::http::ApiResult;
use crate::limits::{Rate, admit};
use crate::store::LONGEST_WINDOW;

const MINUTE: u64 = 60;
const QUARTER: Duration = Duration::from_secs(15 * MINUTE);

/// A password has at least ten characters, so nobody guesses it at this speed.
pub(super) const SIGN_IN: Rate = Rate { name: "sign-ins", quota: 10, window: QUARTER };

/// Each try takes a core for 20 ms. A university or a company may share one address, so the quota is high.
pub(super) const SIGN_INS_OF_ADDRESS: Rate = Rate { name: "sign-ins", quota: 200, window: QUARTER };

/// Each sign-up leaves a row for good.
pub(super) const SIGN_UPS_OF_ADDRESS: Rate =
    Rate { name: "sign-ups", quota: 20, window: Duration::from_secs(60 * MINUTE) };

/// Each request leaves a row for a while.
pub(super) const DEVICES_OF_ADDRESS: Rate = Rate { name: "devices", quota: 60, window: QUARTER };

/// Without a limit, a signed-in account could guess the code of a stranger's program and allow it.
pub(super) const CODES_OF_ACCOUNT: Rate = Rate { name: "codes", quota: 20, window: QUARTER };

/// Each report leaves a row and takes an administrator's time.
const REPORTS: Rate = Rate { name: "reports", quota: 20, window: LONGEST_WINDOW };

/// Counts a report against its account or, without one, against its address.
pub(crate) async fn admit_report(app: &App, account: Option<&Account>, peer: &Peer) -> ApiResult<()> {
    let whose = account.map_or_else(|| peer.0.clone(), |account| account.id.to_string());
    admit(app, &format!("reports of {whose}"), &REPORTS).await?;
    Ok(())
}
