use std::time::Duration;

use diode_core::api::Account;

use super::Peer;
use super::links::MAILED_PASSWORD_LASTS;
use crate::app::App;
use crate::http::ApiResult;
use crate::limits::{Rate, admit};
use crate::store::LONGEST_WINDOW;

const MINUTE: u64 = 60;
const QUARTER: Duration = Duration::from_secs(15 * MINUTE);

/// A password has at least ten characters, so it cannot be guessed at this speed.
pub(super) const SIGN_IN: Rate = Rate { name: "sign-ins", quota: 10, window: QUARTER };

/// Each costs 20 ms of a core. A university or company may share one address.
pub(super) const SIGN_INS_OF_ADDRESS: Rate = Rate { name: "sign-ins", quota: 200, window: QUARTER };

/// Each leaves a row for good.
pub(super) const SIGN_UPS_OF_ADDRESS: Rate =
    Rate { name: "sign-ups", quota: 20, window: Duration::from_secs(60 * MINUTE) };

/// Each leaves a row for a while.
pub(super) const DEVICES_OF_ADDRESS: Rate = Rate { name: "devices", quota: 60, window: QUARTER };

/// A signed-in account could otherwise allow a stranger's program by guessing its code.
pub(super) const CODES_OF_ACCOUNT: Rate = Rate { name: "codes", quota: 20, window: QUARTER };

/// Each leads to a mail or to none, which nobody is told.
pub(super) const RESETS: Rate = Rate { name: "resets", quota: 5, window: QUARTER };

/// Each leaves a row for a while, and costs a look for an account. A company may share one address.
pub(super) const RESETS_OF_ADDRESS: Rate = Rate { name: "resets", quota: 30, window: QUARTER };

/// Beyond it none are sent, wherever they are asked for. Nobody is told that either.
pub(super) const RESETS_OF_ACCOUNT: Rate = Rate { name: "resets", quota: 5, window: MAILED_PASSWORD_LASTS };

/// They go to any address that an account gives, also a stranger's.
pub(super) const CONFIRMATIONS: Rate = Rate { name: "confirmations", quota: 5, window: LONGEST_WINDOW };

/// Each leaves a row, and costs an administrator time.
const REPORTS: Rate = Rate { name: "reports", quota: 20, window: LONGEST_WINDOW };

/// Counts a report of an account or, without one, of an address.
pub(crate) async fn admit_report(app: &App, account: Option<&Account>, peer: &Peer) -> ApiResult<()> {
    let whose = account.map_or_else(|| peer.0.clone(), |account| account.id.to_string());
    admit(app, &format!("reports of {whose}"), &REPORTS).await?;
    Ok(())
}
