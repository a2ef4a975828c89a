use std::time::Duration;

use crate::store::error::StoreError;

/// As often a transaction is begun at most, the first time among them.
const TRIES: u32 = 5;

/// Before the second attempt; so much longer before each further one.
const PAUSE: Duration = Duration::from_millis(20);

/// The attempts at a transaction.
#[derive(Default)]
pub(super) struct Attempts(u32);

impl Attempts {
    /// Whether another attempt is due, after a pause.
    pub(super) async fn again(&mut self, error: &StoreError) -> bool {
        self.0 += 1;
        if self.0 >= TRIES || !error.is_conflict() {
            return false;
        }
        tracing::debug!("a transaction is begun anew: {error}");
        tokio::time::sleep(PAUSE * self.0).await;
        true
    }
}

/// Runs statements in one transaction that writes. Where others were in its way it is begun anew: of two
/// transactions that wait for each other, Postgres ends one.
///
/// With `if`, what was done is kept only for outcomes of this pattern.
macro_rules! in_transaction {
    ($store:expr, $tx:ident => $run:expr) => {
        in_transaction!($store, $tx => $run, if _)
    };
    ($store:expr, $tx:ident => $run:expr, if $kept:pat) => {{
        let mut attempts = $crate::store::sql::transaction::Attempts::default();
        loop {
            let mut transaction = $crate::store::sql::writer($store).await?;
            let $tx = &mut *transaction;
            let ended = match $run.await {
                Ok(outcome) => {
                    #[allow(clippy::redundant_pattern_matching, reason = "the pattern is the caller's")]
                    let kept = matches!(outcome, $kept);
                    if kept {
                        transaction.commit().await.map(|()| outcome).map_err($crate::store::StoreError::from)
                    } else {
                        Ok(outcome)
                    }
                }
                Err(error) => {
                    // Its locks are nobody's any more while the next attempt waits.
                    drop(transaction);
                    Err(error)
                }
            };
            match ended {
                Err(error) if attempts.again(&error).await => {}
                ended => break ended,
            }
        }
    }};
}
