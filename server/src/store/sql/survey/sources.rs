use diode_api::{HardwareReceipt, SolutionSource};

use crate::solutions::Damaged;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{from_json, optional, parse, unsigned};
use crate::store::from_row::from_row;
use crate::store::sql::standing;
use crate::store::sql::summaries::micros;
use crate::store::statement::Statement;
use crate::store::survey::Sample;
use crate::store::types::View;

struct SourceRow {
    upload: String,
    name: Option<String>,
    standing: i64,
    received_at: String,
    hardware: String,
    timings: i64,
    failures: i64,
    best_ns: Option<f64>,
}

from_row!(SourceRow { upload, name, standing, received_at, hardware, timings, failures, best_ns });

impl SourceRow {
    fn read(self, view: &View) -> Result<SolutionSource, Damaged> {
        let receipts: Vec<HardwareReceipt> = from_json("upload's hardware", &self.hardware)?;
        // A file may have several parts for one hardware: the first of them is read. If the hardware was merged
        // since, the parts have its old name, and the first part of the file is read.
        let own = receipts.iter().position(|one| one.slug == view.hardware).unwrap_or(0);
        let own = receipts.into_iter().nth(own);
        let (collected_at, tool, driver, library) =
            own.map_or((None, None, None, None), |own| (own.collected_at, own.tool, own.driver, own.library));
        Ok(SolutionSource {
            upload: parse("upload id", self.upload)?,
            contributor: optional("account name", self.name)?,
            standing: standing::read(self.standing)?,
            received_at: self.received_at,
            collected_at,
            tool,
            driver,
            library,
            timings: unsigned("timing count", self.timings)?,
            failures: unsigned("failure count", self.failures)?,
            best_us: self.best_ns.map(micros),
        })
    }
}

/// `db` must be a transaction whose queries all see the same state.
pub(super) async fn sources(
    db: &mut Connection,
    view: &View,
    limit: u32,
) -> StoreResult<Sample<SolutionSource>> {
    let of_view = |select: &'static str| {
        Statement::new(select)
            .push_bind(view.hardware.as_str())
            .push(" AND s.problem = ")
            .push_bind(view.problem.as_str())
            .push(" AND s.method = ")
            .push_bind(view.method.to_string())
            .push(" AND s.standing < 2")
    };
    let (total,): (i64,) =
        db.fetch_one(of_view("SELECT COUNT(*) FROM solutions s WHERE s.hardware = ")).await?;
    let select = of_view(
        "SELECT u.id AS upload, a.name, s.standing, u.received_at, u.hardware, s.timings, s.failures, s.best_ns \
         FROM solutions s JOIN uploads u ON u.id = (SELECT v.id FROM sent t JOIN uploads v ON v.id = t.upload \
         WHERE t.solution = s.id ORDER BY v.standing, v.received_at, v.id LIMIT 1) \
         LEFT JOIN accounts a ON a.id = s.contributor WHERE s.hardware = ",
    );
    let select = select.push(" ORDER BY u.received_at DESC, s.id DESC LIMIT ").push_bind(i64::from(limit));
    let rows: Vec<SourceRow> = db.fetch_all(select).await?;
    let items = rows.into_iter().map(|row| row.read(view)).collect::<Result<_, _>>()?;
    Ok(Sample { total: unsigned("solution count", total)?, items })
}
