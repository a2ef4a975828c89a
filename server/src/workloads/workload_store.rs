//! What of some problems has been measured on a hardware, and what agents are asked for.

use std::collections::{BTreeMap, HashSet};

use diode_core::Method;
use diode_core::ids::{HardwareSlug, ProblemId};

use crate::store::connection::Connection;
use crate::store::fields::unsigned;
use crate::store::statement::{ROWS_PER_STATEMENT, Statement};
use crate::store::{Store, StoreResult, View};
use crate::uploads::solutions::StoredSolutions;

impl Store {
    /// The ids of the problems of a hardware that have a solution that counts.
    pub async fn measured_ids(&self, hardware: &HardwareSlug) -> StoreResult<HashSet<String>> {
        let select =
            Statement::new("SELECT DISTINCT problem FROM solutions WHERE hardware = $1 AND standing = 0");
        let db = &mut self.reader().await?;
        let rows: Vec<(String,)> = db.fetch_all(select.bind(hardware.as_str())).await?;
        Ok(rows.into_iter().map(|(problem,)| problem).collect())
    }

    /// How many of these problems have a solution that counts, and how many agents are asked for or measure.
    pub async fn progress_of(
        &self,
        hardware: &HardwareSlug,
        problems: &[ProblemId],
    ) -> StoreResult<(u64, u64)> {
        let db = &mut self.read_transaction().await?;
        let (mut measured, mut waiting) = (0, 0);
        for chunk in problems.chunks(ROWS_PER_STATEMENT) {
            measured += db.measured_among(hardware, chunk).await?.len() as u64;
            waiting += db.waiting_among(hardware, chunk).await?;
        }
        Ok((measured, waiting))
    }

    /// The solutions of these problems by one method. Problems without solutions are left out.
    pub async fn solutions_of(
        &self,
        hardware: &HardwareSlug,
        problems: &[ProblemId],
        method: Method,
    ) -> StoreResult<BTreeMap<ProblemId, StoredSolutions>> {
        let view =
            |problem: &ProblemId| View { hardware: hardware.clone(), problem: problem.clone(), method };
        let views: Vec<View> = problems.iter().map(view).collect();
        let db = &mut self.read_transaction().await?;
        let mut found = BTreeMap::new();
        for chunk in views.chunks(ROWS_PER_STATEMENT) {
            let loaded = db.load_views(&chunk.iter().collect::<Vec<_>>()).await?;
            found.extend(loaded.into_iter().map(|(view, stored)| (view.problem, stored)));
        }
        Ok(found)
    }
}

impl Connection {
    async fn waiting_among(&mut self, hardware: &HardwareSlug, problems: &[ProblemId]) -> StoreResult<u64> {
        let select = Statement::new(
            "SELECT COUNT(*) FROM work WHERE state IN ('waiting', 'leased') AND purpose NOT IN ('confirm', 'again') \
             AND hardware = ",
        )
        .push_bind(hardware.as_str())
        .push(" AND problem IN (")
        .push_list(problems.iter().map(ProblemId::as_str))
        .push(")");
        let (count,): (i64,) = self.fetch_one(select).await?;
        Ok(unsigned("waiting problems", count)?)
    }
}
