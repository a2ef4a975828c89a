use diode_api::ProblemFilter;
use diode_core::ids::HardwareSlug;

use crate::size_map::SizedProblem;
use crate::solutions::Damaged;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::unsigned;
use crate::store::from_row::from_row;
use crate::store::sql::entry_row;
use crate::store::sql::filter::push_filter;
use crate::store::statement::Statement;

struct SizedRow {
    m: i64,
    n: i64,
    k: i64,
    entry: String,
}

from_row!(SizedRow { m, n, k, entry });

impl SizedRow {
    fn problem(self) -> Result<SizedProblem, Damaged> {
        let entry = entry_row::read(&self.entry)?;
        let tile = entry.triton.as_ref().and_then(|triton| triton.config.tile());
        Ok(SizedProblem {
            m: unsigned("M", self.m)?,
            n: unsigned("N", self.n)?,
            k: unsigned("K", self.k)?,
            tile: tile.map(|tile| [tile.block_m, tile.block_n, tile.block_k]),
            triton_over_library: entry.triton_over_library,
        })
    }
}

/// The problems or, if there are more than `cap`, an even sample: the first ids, which are digests.
pub(super) async fn sized_problems(
    db: &mut Connection,
    slug: &HardwareSlug,
    filter: &ProblemFilter,
    cap: u32,
) -> StoreResult<Vec<SizedProblem>> {
    let filter = ProblemFilter { min_k: None, max_k: None, ..filter.clone() };
    let select = Statement::new("SELECT e.m, e.n, e.k, e.entry FROM entries e");
    let select =
        push_filter(select, slug, &filter).push(" ORDER BY e.problem LIMIT ").push_bind(i64::from(cap));
    let rows: Vec<SizedRow> = db.fetch_all(select).await?;
    Ok(rows.into_iter().map(SizedRow::problem).collect::<Result<_, _>>()?)
}
