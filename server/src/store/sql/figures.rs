//! How much the database has and how much waits, for operators.

use diode_api::JobState;

use crate::solutions::Damaged;
use crate::store::agents::AGENT_LEASE;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{named, unsigned};
use crate::store::statement::Statement;
use crate::store::types::Now;
use crate::store::upkeep::Figures;

pub(super) async fn figures(db: &mut Connection, now: Now) -> StoreResult<Figures> {
    let counts = Statement::new(
        "SELECT (SELECT COUNT(*) FROM stale_entries), (SELECT COUNT(*) FROM uploads WHERE judged = 0), \
                (SELECT COUNT(*) FROM uploads), (SELECT COUNT(*) FROM agents WHERE seen >= $1), \
                (SELECT COUNT(*) FROM leases WHERE state = 'active'), \
                (SELECT COUNT(*) FROM work WHERE state = 'waiting')",
    )
    .bind(now.millis() - AGENT_LEASE.as_millis() as i64);
    let (stale, to_judge, uploads, agents, leases, work): (i64, i64, i64, i64, i64, i64) =
        db.fetch_one(counts).await?;
    let by_state = Statement::new("SELECT state, COUNT(*) FROM jobs GROUP BY state ORDER BY state");
    let jobs: Vec<(String, i64)> = db.fetch_all(by_state).await?;
    let read = |(state, number): (String, i64)| -> Result<(JobState, u64), Damaged> {
        Ok((named("job state", &state)?, unsigned("jobs", number)?))
    };
    Ok(Figures {
        jobs: jobs.into_iter().map(read).collect::<Result<_, _>>()?,
        stale_entries: unsigned("stale entries", stale)?,
        to_judge: unsigned("uploads to judge", to_judge)?,
        uploads: unsigned("uploads", uploads)?,
        upload_bytes: stored_bytes(db).await?,
        agents: unsigned("agents", agents)?,
        leases: unsigned("leases", leases)?,
        waiting_work: unsigned("waiting work", work)?,
    })
}

/// How many bytes all files have that people sent: uploads and contributed models.
pub(super) async fn stored_bytes(db: &mut Connection) -> StoreResult<u64> {
    let select = Statement::new(
        "SELECT CAST((SELECT COALESCE(SUM(bytes), 0) FROM uploads) \
         + (SELECT COALESCE(SUM(bytes), 0) FROM contributed_models) AS BIGINT)",
    );
    let (bytes,): (i64,) = db.fetch_one(select).await?;
    Ok(unsigned("upload size", bytes)?)
}
