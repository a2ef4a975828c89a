use std::collections::{HashMap, HashSet};

use diode_core::api::{Measuring, MeasuringState, Purpose};
use diode_core::ids::{HardwareSlug, ProblemId};

use crate::solutions::Damaged;
use crate::store::error::StoreResult;
use crate::store::sql::connection::Connection;
use crate::store::sql::fields::named;
use crate::store::sql::from_row::from_row;
use crate::store::sql::statement::Statement;

struct WaitingRow {
    problem: String,
    state: String,
    purpose: String,
    refusal: Option<String>,
}

from_row!(WaitingRow { problem, state, purpose, refusal });

/// How far problems have come on a hardware.
pub(super) async fn read(
    db: &mut impl Connection,
    hardware: &HardwareSlug,
    problems: &[ProblemId],
) -> StoreResult<Vec<Measuring>> {
    let of_these = |select: &'static str| {
        Statement::new(select)
            .push_bind(hardware.as_str())
            .push(" AND problem IN (")
            .push_list(problems.iter().map(ProblemId::as_str))
            .push(")")
    };
    let select = of_these("SELECT DISTINCT problem FROM solutions WHERE standing = 0 AND hardware = ");
    let rows: Vec<(String,)> = db.fetch_all(select).await?;
    let measured: HashSet<String> = rows.into_iter().map(|(problem,)| problem).collect();
    // A problem that is to be confirmed is measured.
    let select = of_these(
        "SELECT problem, state, purpose, refusal FROM work WHERE purpose <> 'confirm' AND state <> 'done' \
         AND hardware = ",
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
