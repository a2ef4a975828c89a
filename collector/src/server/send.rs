//! Sends a file until the server accepts or refuses it.

use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use serde::de::DeserializeOwned;

use super::client::{Answer, judge, refusal, retry_after, wait_for};

/// How often to try while the server cannot be reached or is busy.
const ATTEMPTS: u32 = 4;
/// The pause before the second attempt. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Sends until the server accepts or refuses. Only for requests that may be repeated: a server recognises a
/// file by its digest.
pub(crate) fn send<T: DeserializeOwned>(
    url: &str,
    post: impl Fn() -> Result<Answer, ureq::Error>,
) -> anyhow::Result<T> {
    let mut pause = FIRST_PAUSE;
    let mut attempt = 1;
    loop {
        let (trouble, asked) = match post() {
            Ok(response) if !matches!(response.status().as_u16(), 429 | 502 | 503 | 504) => {
                return judge(response);
            }
            Ok(mut response) => {
                let asked = retry_after(&response);
                (refusal(&mut response).1, asked)
            }
            Err(error) if is_passing(&error) => {
                let words = format!("cannot reach {url}; is the server running?");
                (anyhow::Error::new(error).context(words), None)
            }
            Err(error) => return Err(error).with_context(|| format!("cannot send to {url}")),
        };
        if attempt == ATTEMPTS {
            return Err(trouble.context(format!("gave up after {ATTEMPTS} attempts")));
        }
        let wait = wait_for(asked, pause);
        say!("{trouble:#}; trying again in {:.1} s", wait.as_secs_f64());
        thread::sleep(wait);
        pause *= 2;
        attempt += 1;
    }
}

/// Whether another attempt may succeed after this error.
fn is_passing(error: &ureq::Error) -> bool {
    matches!(error, ureq::Error::Io(_) | ureq::Error::ConnectionFailed | ureq::Error::Timeout(_))
}
