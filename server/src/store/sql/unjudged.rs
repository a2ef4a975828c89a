use diode_api::ContributionState;
use diode_core::ids::JobId;

use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::statement::Statement;

/// If the job should have judged a contributed model, stores why the model still waits. Otherwise does nothing.
pub(super) async fn note(db: &mut Connection, job: &JobId, why: &str) -> StoreResult<()> {
    let update = Statement::new("UPDATE contributed_models SET reason = $1 WHERE job = $2 AND state = $3")
        .bind(why)
        .bind(job.as_str())
        .bind(ContributionState::Waiting.as_str());
    db.execute(update).await?;
    Ok(())
}
