use std::time::Duration;

use crate::store::error::StoreError;

/// How often a transaction is tried at most.
const TRIES: u32 = 5;

/// The pause before the second try. Each further pause is longer by the same time.
const PAUSE: Duration = Duration::from_millis(20);

/// The tries of a transaction.
#[derive(Default)]
pub(super) struct Attempts(u32);

impl Attempts {
    /// Whether another try is due. If so, pauses first.
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

/// Runs statements in one transaction that writes. If it conflicts with another, it begins again: Postgres
/// ends one of two transactions that deadlock.
///
/// With `if`, the transaction is committed only if the outcome matches this pattern.
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
                    // Releases the locks before the pause.
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
