use super::{Left, Rate};
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::store::{Now, Tries};

/// Counts a try of a subject. Refuses the try if the subject has tried too often.
pub(crate) async fn admit(app: &App, subject: &str, rate: &Rate) -> ApiResult<Left> {
    let now = Now::read();
    if let Some(until) = app.refused.until(subject, now) {
        return Err(refuse(rate, until, now));
    }
    let window = rate.window_millis();
    let Tries { count, since } = app.backend.store.count_attempt(subject, now.millis() - window, now).await?;
    let until = since + window;
    if count > rate.quota {
        app.refused.note(subject, until);
        return Err(refuse(rate, until, now));
    }
    Ok(Left { rate: *rate, left: rate.quota - count, reset: seconds(until, now) })
}

fn refuse(rate: &Rate, until: i64, now: Now) -> ApiFault {
    let left = Left { rate: *rate, left: 0, reset: seconds(until, now) };
    let message = format!(
        "more than {} {} within {}; try again in {} s",
        rate.quota,
        rate.name,
        rate.within(),
        left.reset
    );
    ApiFault::tried_too_often(message, left)
}

/// At least one second: a client that comes back at once would be refused again.
fn seconds(until: i64, now: Now) -> u32 {
    u32::try_from((until - now.millis()).max(1)).unwrap_or(u32::MAX).div_ceil(1000)
}
