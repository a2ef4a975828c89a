use std::collections::{HashMap, HashSet};

use diode_api::{Measuring, MeasuringState, Purpose};
use diode_core::ids::{HardwareSlug, ProblemId};

use crate::solutions::Damaged;
use crate::store::Now;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::named;
use crate::store::from_row::from_row;
use crate::store::statement::Statement;

struct WaitingRow {
    problem: String,
    state: String,
    purpose: String,
    refusal: Option<String>,
}

from_row!(WaitingRow { problem, state, purpose, refusal });

/// The state of problems on a hardware.
pub(super) async fn read(
    db: &mut Connection,
    hardware: &HardwareSlug,
    problems: &[ProblemId],
    now: Now,
) -> StoreResult<Vec<Measuring>> {
    let of_these = |select: Statement| {
        select
            .push_bind(hardware.as_str())
            .push(" AND problem IN (")
            .push_list(problems.iter().map(ProblemId::as_str))
            .push(")")
    };
    let select = "SELECT DISTINCT problem FROM solutions WHERE standing = 0 AND hardware = ";
    let select = of_these(Statement::new(select));
    let rows: Vec<(String,)> = db.fetch_all(select).await?;
    let measured: HashSet<String> = rows.into_iter().map(|(problem,)| problem).collect();
    // Work to confirm or repeat a measurement is left out, because its problem counts as measured. Work of an
    // expired lease counts as waiting, though the lease ends only when another agent asks.
    let select = of_these(
        Statement::new(
            "SELECT problem, CASE WHEN state = 'leased' AND EXISTS (SELECT 1 FROM leases \
             WHERE leases.id = work.lease AND leases.until < ",
        )
        .push_bind(now.millis())
        .push(
            ") THEN 'waiting' ELSE state END AS state, purpose, refusal FROM work \
             WHERE purpose NOT IN ('confirm', 'again') AND state <> 'done' AND hardware = ",
        ),
    );
    let rows: Vec<WaitingRow> = db.fetch_all(select).await?;
    let waiting: HashMap<&str, &WaitingRow> = rows.iter().map(|row| (row.problem.as_str(), row)).collect();
    let all = problems.iter().map(|problem| match waiting.get(problem.as_str()) {
        _ if measured.contains(problem.as_str()) => Ok(told(problem, MeasuringState::Measured)),
        Some(row) => row.told(problem),
        None => Ok(told(problem, MeasuringState::Unasked)),
    });
    Ok(all.collect::<Result<_, Damaged>>()?)
}

fn told(problem: &ProblemId, state: MeasuringState) -> Measuring {
    Measuring { problem: problem.clone(), state, purpose: None, reason: None }
}

impl WaitingRow {
    fn told(&self, problem: &ProblemId) -> Result<Measuring, Damaged> {
        let purpose: Purpose = named("purpose", &self.purpose)?;
        let state: MeasuringState = named("state", &self.state)?;
        Ok(Measuring { purpose: Some(purpose), reason: self.refusal.clone(), ..told(problem, state) })
    }
}
