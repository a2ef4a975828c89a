//! The board entries of two sides, and the libraries that uploads were measured with.

use diode_api::{KernelResult, Kernels, LibraryOn, LibraryUse, MethodOn, ProblemFilter, TimedConfig};
use diode_core::ids::{HardwareSlug, ProblemId, UploadId};
use diode_core::{Config, Problem};

use crate::boards::board_store::{problem_of, push_filter};
use crate::boards::entry_store::read_entry;
use crate::boards::survey_store::Sample;
use crate::store::Store;
use crate::store::StoreResult;
use crate::store::connection::Connection;
use crate::store::fields::{parse, unsigned};
use crate::store::from_row::readable_row;
use crate::store::statement::Statement;
use crate::uploads::solutions::Damaged;

readable_row!(LibraryUse { library, uploads, problems, newest_at } => LibraryUse {
    name: parse("library", library)?,
    uploads: unsigned("upload count", uploads)?,
    problems: unsigned("problem count", problems)?,
    newest_at,
});

/// The problem, and the two entries.
type PairRow = (String, String, String);

/// A problem that was measured on two sides, with the best config of each.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    pub problem: Problem,
    pub a: TimedConfig,
    pub b: TimedConfig,
}

impl Store {
    /// Problems with a timed Triton config, in the order of ids. If there are more than `cap`, returns an even
    /// sample of them.
    pub async fn triton_problems(
        &self,
        slug: &HardwareSlug,
        filter: &ProblemFilter,
        cap: u32,
    ) -> StoreResult<Sample<ProblemId>> {
        let db = &mut self.read_transaction().await?;
        let total = db.timed_problems(slug, Kernels::Triton, filter).await?;
        let select = Statement::new("SELECT e.problem FROM entries e");
        let select = push_filter(select, slug, filter).push(time_condition(Kernels::Triton));
        // Ids are digests, so the first ids are an even sample.
        let select = select.push(" ORDER BY e.problem LIMIT ").push_bind(i64::from(cap));
        let rows: Vec<(String,)> = db.fetch_all(select).await?;
        let ids = rows.into_iter().map(|(id,)| parse("problem id", id));
        Ok(Sample { total, items: ids.collect::<Result<_, _>>()? })
    }

    /// The best times of some kernels on the problems that two sides share. Each side is a hardware and a method. If
    /// there are more than `cap` problems, returns an even sample of them.
    pub async fn pairs(
        &self,
        of: [&MethodOn; 2],
        kernels: Kernels,
        filter: &ProblemFilter,
        cap: u32,
    ) -> StoreResult<Sample<Pair>> {
        let [a, b] = of;
        let db = &mut self.read_transaction().await?;
        let filter = &ProblemFilter { method: Some(a.method), ..*filter };
        let joined = |select: &'static str| {
            let select = Statement::new(select).push(" FROM entries e JOIN entries o ON o.hardware = ");
            let select = select.push_bind(b.hardware.as_str()).push(" AND o.method = ");
            let select = select.push_bind(b.method.to_string());
            let select = select.push(" AND o.problem = e.problem JOIN problems p ON p.id = e.problem");
            push_filter(select, &a.hardware, filter)
                .push(time_condition(kernels))
                .push(other_time_condition(kernels))
        };
        let (total,): (i64,) = db.fetch_one(joined("SELECT COUNT(*)")).await?;
        let select = joined("SELECT p.fields, e.entry, o.entry")
            .push(" ORDER BY e.problem, e.method LIMIT ")
            .push_bind(i64::from(cap));
        let rows: Vec<PairRow> = db.fetch_all(select).await?;
        let items = rows.into_iter().map(|row| pair(row, kernels)).collect::<Result<_, _>>()?;
        Ok(Sample { total: unsigned("problem count", total)?, items })
    }

    /// On how many problems of a hardware the kernels were timed.
    pub async fn timed_problems(
        &self,
        slug: &HardwareSlug,
        kernels: Kernels,
        filter: &ProblemFilter,
    ) -> StoreResult<u64> {
        self.reader().await?.timed_problems(slug, kernels, filter).await
    }

    /// The libraries of uploads that count, by name. If there are more than `newest`, only the libraries of the
    /// newest uploads. Uploads of several kinds of hardware are left out, because they do not say which hardware had
    /// which library.
    pub async fn libraries(&self, newest: u32) -> StoreResult<Vec<LibraryUse>> {
        // The query and the index have the same condition, so that the index is used.
        let db = &mut self.reader().await?;
        let select = Statement::new(
            "SELECT library, COUNT(*) AS uploads, CAST(SUM(library_problems) AS BIGINT) AS problems, \
             MAX(received_at) AS newest_at FROM uploads WHERE standing = 0 AND library IS NOT NULL \
             GROUP BY library ORDER BY newest_at DESC, library LIMIT $1",
        );
        let mut libraries: Vec<LibraryUse> = db.read_all(select.bind(i64::from(newest))).await?;
        libraries.sort_by_cached_key(|library| library.name.to_string());
        Ok(libraries)
    }

    /// The newest uploads of a library, the newest first.
    pub async fn library_uploads(&self, library: &LibraryOn, limit: u32) -> StoreResult<Vec<UploadId>> {
        let db = &mut self.reader().await?;
        let select = Statement::new(
            "SELECT id FROM uploads WHERE standing = 0 AND library IS NOT NULL AND library = $1 \
             ORDER BY received_at DESC, id DESC LIMIT $2",
        );
        let rows: Vec<(String,)> =
            db.fetch_all(select.bind(library.to_string()).bind(i64::from(limit))).await?;
        Ok(rows.into_iter().map(|(id,)| parse("upload id", id)).collect::<Result<_, Damaged>>()?)
    }
}

impl Connection {
    pub(crate) async fn timed_problems(
        &mut self,
        slug: &HardwareSlug,
        kernels: Kernels,
        filter: &ProblemFilter,
    ) -> StoreResult<u64> {
        let count = Statement::new("SELECT COUNT(DISTINCT e.problem) FROM entries e");
        let count = push_filter(count, slug, filter).push(time_condition(kernels));
        let (count,): (i64,) = self.fetch_one(count).await?;
        Ok(unsigned("problem count", count)?)
    }
}

fn pair((fields, a, b): PairRow, kernels: Kernels) -> Result<Pair, Damaged> {
    let timed = |entry: &str| -> Result<TimedConfig, Damaged> {
        let entry = read_entry(entry)?;
        let of = |kernel: Option<KernelResult>| kernel.map(|kernel| (kernel.config, kernel.us));
        let (config, us) = match kernels {
            Kernels::Triton => of(entry.triton),
            Kernels::Library => of(entry.library).map(|(_, us)| (Config::Library, us)),
            Kernels::Everything => Some((entry.best, entry.best_us)),
        }
        .ok_or_else(|| Damaged::new("board entry", "the kernels have no time"))?;
        Ok(TimedConfig { config, us })
    };
    Ok(Pair { problem: problem_of(&fields)?, a: timed(&a)?, b: timed(&b)? })
}

/// The condition that the kernels have a time. No time is negative.
fn time_condition(kernels: Kernels) -> &'static str {
    match kernels {
        Kernels::Triton => " AND e.triton_us >= 0",
        Kernels::Library => " AND e.library_us >= 0",
        Kernels::Everything => " AND e.best_us >= 0",
    }
}

fn other_time_condition(kernels: Kernels) -> &'static str {
    match kernels {
        Kernels::Triton => " AND o.triton_us >= 0",
        Kernels::Library => " AND o.library_us >= 0",
        Kernels::Everything => " AND o.best_us >= 0",
    }
}
