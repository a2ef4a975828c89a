use crate::store::accounts::{LONGEST_WINDOW, Tries};
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::unsigned;
use crate::store::statement::Statement;
use crate::store::types::Now;

pub(super) async fn count(db: &mut Connection, subject: &str, since: i64, now: Now) -> StoreResult<Tries> {
    // A single statement, so that tries at the same moment are all counted.
    let upsert = Statement::new(
        "INSERT INTO attempts (subject, tries, since) VALUES ($1, 1, $2) ON CONFLICT (subject) DO UPDATE SET \
         tries = CASE WHEN attempts.since < $3 THEN 1 ELSE attempts.tries + 1 END, \
         since = CASE WHEN attempts.since < $3 THEN $2 ELSE attempts.since END RETURNING tries, since",
    )
    .bind(subject)
    .bind(now.millis())
    .bind(since);
    let (tries, since): (i64, i64) = db.fetch_one(upsert).await?;
    if tries == 1 {
        // Removes rows of subjects that have stopped trying. The longest window decides, because other
        // subjects may have a longer window than this one.
        let oldest = now.millis() - LONGEST_WINDOW.as_millis() as i64;
        db.execute(Statement::new("DELETE FROM attempts WHERE since < $1").bind(oldest)).await?;
    }
    Ok(Tries { count: unsigned("tries", tries)?, since })
}

pub(super) async fn forget(db: &mut Connection, subject: &str) -> StoreResult<()> {
    db.execute(Statement::new("DELETE FROM attempts WHERE subject = $1").bind(subject)).await?;
    Ok(())
}
