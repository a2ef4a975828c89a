//! The server's models, the models of their cross-validation, and when a training is due.

use std::time::Duration;

use diode_api::{Contribution, Job, JobRequest, ModelSource, ModelSummary, ModelType};
use diode_core::Heuristic;
use diode_core::hardware::Hardware;
use diode_core::ids::{HardwareSlug, ModelId, UploadId};

use crate::jobs::job_store::Queued;
use crate::models::contribution_store::CONTRIBUTION_COLUMNS;
use crate::store::Store;
use crate::store::connection::Connection;
use crate::store::connection::{Exclusive, in_transaction};
use crate::store::fields::{from_json, json, named, readable_row, unsigned};
use crate::store::statement::{ROWS_PER_STATEMENT, Statement};
use crate::store::{Now, StoreResult};

/// When a training is due. All three conditions must hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Due {
    /// How many problems must be new since a training was last asked for.
    pub problems: u64,
    /// How many problems must be new, divided by the number of problems at that time.
    pub share: f64,
    /// How many milliseconds must have passed since then.
    pub pause: i64,
}

impl Due {
    /// Whether a training is due now. The last training was asked for at `asked`, when there were `before`
    /// problems. Now there are `there`.
    pub(crate) fn is_due(&self, before: u64, there: u64, asked: Option<i64>, now: Now) -> bool {
        let new = there.saturating_sub(before);
        new >= self.problems.max(1)
            && new as f64 >= self.share * before as f64
            // What lies in the future was noted before a clock was set back.
            && asked.is_none_or(|asked| {
                now.millis() - asked >= self.pause || asked > now.latest_end(Duration::ZERO)
            })
    }
}

/// A model's summary, how many of the uploads that it was trained on no longer count, and whether the networks of its
/// cross-validation are stored. A contributed model that was not accepted has no row in `models`.
const MODEL_COLUMNS: &str = "SELECT COALESCE(m.summary, c.summary) AS summary, \
                             COALESCE(m.state, 'unpublished') AS state, COALESCE(m.reason, '') AS reason, \
                             COALESCE(m.pinned, 0) AS pinned, \
                             (SELECT COUNT(*) FROM model_uploads n LEFT JOIN uploads u ON u.id = n.upload \
                             WHERE n.model = m.id AND (u.id IS NULL OR u.standing > 0)) AS withdrawn, \
                             (SELECT COUNT(*) FROM unseen_models v WHERE v.model = m.id) AS unseen_models, ";

readable_row!(ModelSummary {
    ..contribution: Option<Contribution>, summary: String, state: String, reason, pinned: i64, withdrawn,
    unseen_models: i64
} => {
    let summary: ModelSummary = from_json("model summary", &summary)?;
    let judged = contribution.as_ref().and_then(|contribution| contribution.figures.as_ref()?.kept.clone());
    ModelSummary {
        withdrawn_uploads: unsigned("upload count", withdrawn)?,
        unseen_models: unseen_models > 0,
        state: named("model state", &state)?,
        reason,
        pinned: pinned != 0,
        kept: judged.or(summary.kept),
        contribution,
        ..summary
    }
});

/// How many of the newest models are read to see what they have learnt.
const LOOKED_AT: u32 = 100;

impl Store {
    /// The published model of a hardware; `None` if there is none.
    pub async fn published(
        &self,
        hardware: &HardwareSlug,
        heuristic: Heuristic,
    ) -> StoreResult<Option<ModelSummary>> {
        self.reader().await?.published_model(hardware, heuristic).await
    }

    /// The models of a model's cross-validation; `None` if they were removed or never existed.
    pub async fn unseen_models(&self, model: &ModelId) -> StoreResult<Option<Vec<u8>>> {
        let db = &mut self.reader().await?;
        let select = Statement::new("SELECT file FROM unseen_models WHERE model = $1").bind(model.as_str());
        let row: Option<(Vec<u8>,)> = db.fetch_optional(select).await?;
        Ok(row.map(|(file,)| file))
    }

    /// Queues a training if enough has been measured since a training was last asked for. If several processes
    /// call this at once, only one job is queued. `false` if this call queued none.
    pub async fn queue_training(&self, job: &Job, due: &Due, now: Now) -> StoreResult<bool> {
        // A check without a lock comes first, because most of the time no training is due.
        if !self.read_transaction().await?.is_training_due(&job.request, due, now).await? {
            return Ok(false);
        }
        in_transaction!(self, async |db| { db.queue_training(job, due, now).await })
    }

    /// The newest models and all published models, of one hardware or of all hardware, the newest first.
    pub async fn models(
        &self,
        hardware: Option<&HardwareSlug>,
        newest: u32,
    ) -> StoreResult<Vec<ModelSummary>> {
        self.reader().await?.list_models(hardware, newest).await
    }

    /// One model; `None` if there is none with this id.
    pub async fn model(&self, id: &ModelId) -> StoreResult<Option<ModelSummary>> {
        self.reader().await?.find_model(id).await
    }
}

impl Connection {
    /// Adds an unpublished model; `false` if it exists already.
    pub(crate) async fn add_model(
        &mut self,
        model: &ModelSummary,
        hardware: &Hardware,
        uploads: &[UploadId],
    ) -> StoreResult<bool> {
        self.insert_hardware(hardware).await?;
        let insert = Statement::new(
            "INSERT INTO models (id, heuristic, hardware, summary, state) VALUES ($1, $2, $3, $4, \
             'unpublished') \
             ON CONFLICT DO NOTHING",
        )
        .bind(model.id.as_str())
        .bind(model.heuristic.as_str())
        .bind(model.hardware.as_str())
        .bind(json("model summary", model)?);
        if self.execute(insert).await? == 0 {
            return Ok(false);
        }
        for chunk in uploads.chunks(ROWS_PER_STATEMENT) {
            let rows = chunk.iter().map(|upload| [model.id.as_str().into(), upload.as_str().into()]);
            let insert = Statement::new("INSERT INTO model_uploads (model, upload)").push_rows(rows);
            self.execute(insert).await?;
        }
        Ok(true)
    }

    /// Publishes a model instead of the one that is published now.
    pub(crate) async fn set_published(&mut self, model: &ModelSummary) -> StoreResult<()> {
        let update = Statement::new(
            "UPDATE models SET state = 'earlier', pinned = 0 \
             WHERE hardware = $1 AND heuristic = $2 AND state = 'published'",
        );
        self.execute(update.bind(model.hardware.as_str()).bind(model.heuristic.as_str())).await?;
        let update = Statement::new("UPDATE models SET state = 'published', reason = '' WHERE id = $1");
        self.execute(update.bind(model.id.as_str())).await?;
        Ok(())
    }

    pub(crate) async fn set_model_reason(&mut self, id: &ModelId, reason: &str) -> StoreResult<()> {
        let update = Statement::new("UPDATE models SET reason = $1 WHERE id = $2");
        self.execute(update.bind(reason).bind(id.as_str())).await?;
        Ok(())
    }

    pub(crate) async fn set_pinned(&mut self, id: &ModelId, pinned: bool) -> StoreResult<()> {
        let update = Statement::new("UPDATE models SET pinned = $1 WHERE id = $2");
        self.execute(update.bind(i64::from(pinned)).bind(id.as_str())).await?;
        Ok(())
    }

    pub(crate) async fn remove_model(&mut self, id: &ModelId) -> StoreResult<()> {
        let delete = Statement::new("DELETE FROM models WHERE id = $1").bind(id.as_str());
        self.execute(delete).await?;
        Ok(())
    }

    /// The newest models, and all published models.
    pub(crate) async fn list_models(
        &mut self,
        hardware: Option<&HardwareSlug>,
        newest: u32,
    ) -> StoreResult<Vec<ModelSummary>> {
        let of_hardware = |select: Statement, column| match hardware {
            Some(slug) => select.push(" WHERE ").push(column).push(" = ").push_bind(slug.as_str()),
            None => select.push(" WHERE 1 = 1"),
        };
        let select = of_hardware(select_models(), "m.hardware")
            .push(" AND (m.state = 'published' OR m.id IN (SELECT newest.id FROM models newest");
        let select = of_hardware(select, "newest.hardware")
            .push(" ORDER BY newest.position DESC LIMIT ")
            .push_bind(i64::from(newest))
            .push("))");
        self.read_all(select.push(" ORDER BY m.position DESC")).await
    }

    pub(crate) async fn find_model(&mut self, id: &ModelId) -> StoreResult<Option<ModelSummary>> {
        let select = select_models().push(" WHERE m.id = ").push_bind(id.as_str());
        self.read_optional(select).await
    }

    pub(crate) async fn published_model(
        &mut self,
        hardware: &HardwareSlug,
        heuristic: Heuristic,
    ) -> StoreResult<Option<ModelSummary>> {
        let select = select_models()
            .push(" WHERE m.state = 'published' AND m.hardware = ")
            .push_bind(hardware.as_str())
            .push(" AND m.heuristic = ")
            .push_bind(heuristic.as_str());
        self.read_optional(select).await
    }

    pub(crate) async fn queue_training(&mut self, job: &Job, due: &Due, now: Now) -> StoreResult<bool> {
        // Other callers that want to queue the same training wait here, and then find the mark.
        self.turn(Exclusive::Queue).await?;
        Ok(self.is_training_due(&job.request, due, now).await?
            && self.enqueue(job, None, now).await? == Queued::Yes)
    }

    pub(crate) async fn is_training_due(
        &mut self,
        request: &JobRequest,
        due: &Due,
        now: Now,
    ) -> StoreResult<bool> {
        let there = self.measured_count(&request.hardware).await?;
        let select = Statement::new(
            "SELECT problems, asked FROM training_marks WHERE hardware = $1 AND heuristic = $2",
        );
        let mark: Option<(i64, i64)> = self
            .fetch_optional(select.bind(request.hardware.as_str()).bind(request.heuristic.as_str()))
            .await?;
        let (before, asked) = match mark {
            Some((problems, asked)) => (unsigned("problem count", problems)?, Some(asked)),
            // No training was asked for yet. Problems that a model from elsewhere has learnt are not new.
            None => {
                let models = self.list_models(Some(&request.hardware), LOOKED_AT).await?;
                // A contributor's statement of what a model has learnt may be false, so it does not count.
                let ours = models.iter().filter(|model| {
                    model.source != ModelSource::Contributed && model.model_type == ModelType::Ranking
                });
                (ours.map(|model| model.training_problems).max().unwrap_or(0), None)
            }
        };
        Ok(due.is_due(before, there, asked, now))
    }

    /// Adds the models of a model's cross-validation unless the store has them. Removes such models of the hardware's
    /// other models. Only the published model keeps them, too: pages show its predictions until a new model is
    /// published.
    pub(crate) async fn add_unseen_models(&mut self, model: &ModelSummary, file: &[u8]) -> StoreResult<()> {
        let delete = Statement::new(
            "DELETE FROM unseen_models WHERE model IN \
             (SELECT id FROM models WHERE hardware = $1 AND heuristic = $2 AND state <> 'published')",
        );
        self.execute(delete.bind(model.hardware.as_str()).bind(model.heuristic.as_str())).await?;
        let insert =
            Statement::new("INSERT INTO unseen_models (model, file) VALUES ($1, $2) ON CONFLICT DO NOTHING");
        self.execute(insert.bind(model.id.as_str()).bind(file.to_vec())).await?;
        Ok(())
    }

    /// Stores how much has been measured, because a training is asked for or a model arrives with its data.
    pub(crate) async fn mark_training(
        &mut self,
        hardware: &HardwareSlug,
        heuristic: Heuristic,
        now: Now,
    ) -> StoreResult<()> {
        let problems = self.measured_count(hardware).await?;
        let insert = Statement::new(
            "INSERT INTO training_marks (hardware, heuristic, problems, asked) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (hardware, heuristic) DO UPDATE SET problems = excluded.problems, asked = \
             excluded.asked",
        )
        .bind(hardware.as_str())
        .bind(heuristic.as_str())
        .bind(problems)
        .bind(now.millis());
        self.execute(insert).await?;
        Ok(())
    }

    /// How many problems of a hardware have a board entry.
    pub(crate) async fn measured_count(&mut self, hardware: &HardwareSlug) -> StoreResult<u64> {
        let select = Statement::new("SELECT COUNT(DISTINCT problem) FROM entries WHERE hardware = $1");
        let (problems,): (i64,) = self.fetch_one(select.bind(hardware.as_str())).await?;
        Ok(unsigned("problem count", problems)?)
    }
}

/// The server's models with their contributors. A model has a contributor here only if the server got it by accepting
/// a contribution. If somebody sent a file that the server had already, no contributor is shown.
fn select_models() -> Statement {
    model_columns().push(
        " FROM models m LEFT JOIN contributed_models c ON c.id = m.id AND c.state = 'accepted' \
         LEFT JOIN accounts a ON a.id = c.account",
    )
}

/// The columns of a [`ModelSummary`]: from `models m`, `contributed_models c` and `accounts a`.
pub(crate) fn model_columns() -> Statement {
    Statement::new(MODEL_COLUMNS).push(CONTRIBUTION_COLUMNS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_training_needs_news_and_time() {
        let now = Now::read();
        let due = Due { problems: 50, share: 0.1, pause: 1000 };
        assert!(due.is_due(0, 50, None, now) && !due.is_due(0, 49, None, now));
        assert!(due.is_due(1000, 1100, None, now) && !due.is_due(1000, 1099, None, now));
        assert!(!due.is_due(100, 40, None, now), "what was taken away is no news");
        assert!(!due.is_due(0, 50, Some(now.millis() - 999), now));
        assert!(due.is_due(0, 50, Some(now.millis() - 1000), now));
        let always = Due { problems: 0, share: 0.0, pause: 0 };
        assert!(!always.is_due(7, 7, None, now), "nothing new is never enough");
    }
}
