//! Questions that read much of a board at once: contributors, records, sources and the map by size.

use std::collections::{BTreeMap, HashMap};

use diode_api::{
    HardwareContributor, HardwareReceipt, ProblemFilter, SizeCell, SizeClass, SizeMap, SizeRange,
    SolutionSource,
};
use diode_core::ids::{AccountId, HardwareSlug};
use diode_core::stats::geometric_mean;
use diode_core::{Method, Micros, Problem};

use crate::boards::entry_store::{View, read_entry};
use crate::boards::listed::Listed;
use crate::store::fields::{from_json, optional, parse, readable_row, unsigned};
use crate::store::statement::Statement;
use crate::store::{Store, StoreResult};
use crate::uploads::solutions::Damaged;
use crate::uploads::standing_store::read_standing;

/// What one contributor has measured: its solutions that count.
struct MeasuredRow {
    contributor: Option<String>,
    name: Option<String>,
    problems: i64,
    solutions: i64,
    timings: i64,
}

readable_row!(MeasuredRow { contributor, name, problems, solutions, timings });

/// The uploads of one account that have a solution.
struct SentRow {
    account: Option<String>,
    uploads: i64,
    newest_at: String,
    weighted: Option<f64>,
    compared: i64,
}

readable_row!(SentRow { account, uploads, newest_at, weighted, compared });

/// The account's solutions that count and are as fast as the board's best time, which is a median over
/// contributors. They are found by way of the account's uploads, because uploads have an index by account.
const FASTEST: &str = " FROM solutions s JOIN entries e ON e.hardware = s.hardware AND e.problem = \
                       s.problem \
                       AND e.method = s.method JOIN problems p ON p.id = s.problem \
                       WHERE s.standing = 0 AND s.best_us <= e.best_us AND s.contributor = $1 \
                       AND s.id IN (SELECT t.solution FROM sent t JOIN uploads u ON u.id = t.upload WHERE \
                       u.account = $1)";

readable_row!(Record { hardware, fields: String, best_us, entry: String } => Record {
    hardware: parse("hardware slug", hardware)?,
    problem: from_json("problem", &fields)?,
    time: Micros(best_us),
    contributors: read_entry(&entry)?.best_contributors,
});

struct SourceRow {
    upload: String,
    name: Option<String>,
    standing: i64,
    received_at: String,
    hardware: String,
    timings: i64,
    failures: i64,
    best_us: Option<f64>,
}

readable_row!(SourceRow { upload, name, standing, received_at, hardware, timings, failures, best_us });

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
            standing: read_standing(self.standing)?,
            received_at: self.received_at,
            collected_at,
            tool,
            driver,
            library,
            timings: unsigned("timing count", self.timings)?,
            failures: unsigned("failure count", self.failures)?,
            best_us: self.best_us,
        })
    }
}

/// What passes a filter, or an even sample of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample<T> {
    /// How many pass the filter in all.
    pub total: u64,
    pub items: Vec<T>,
}

/// A problem on which nobody is faster than a contributor.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub hardware: HardwareSlug,
    pub problem: Problem,
    /// The contributor's best time.
    pub time: Micros,
    /// How many contributors have timed the board's best config.
    pub contributors: u64,
}

impl Store {
    /// The problems that pass a filter, with what a map of sizes needs of them. K does not matter. If there are more
    /// than `cap`, returns an even sample of them.
    pub async fn sized_problems(
        &self,
        slug: &HardwareSlug,
        filter: &ProblemFilter,
        cap: u32,
    ) -> StoreResult<Vec<SizedProblem>> {
        let filter = ProblemFilter { min_k: None, max_k: None, ..filter.clone() };
        let board = self.board(slug).await?;
        let sized = |entry: &Listed| SizedProblem {
            m: entry.problem.m,
            n: entry.problem.n,
            k: entry.problem.k,
            tile: entry.tile,
            triton_over_library: entry.triton_over_library,
        };
        Ok(board.passing(&filter).take(cap as usize).map(sized).collect())
    }

    /// The contributors of a hardware. Those with the most problems come first.
    pub async fn contributors(
        &self,
        slug: &HardwareSlug,
        limit: u32,
    ) -> StoreResult<Vec<HardwareContributor>> {
        let db = &mut self.read_transaction().await?;
        let select = Statement::new(
            "SELECT s.contributor, a.name, COUNT(DISTINCT s.problem) AS problems, COUNT(*) AS solutions, \
             CAST(SUM(s.timings) AS BIGINT) AS timings FROM solutions s LEFT JOIN accounts a ON a.id = \
             s.contributor \
             WHERE s.hardware = ",
        )
        .push_bind(slug.as_str())
        .push(
            " AND s.standing = 0 GROUP BY s.contributor, a.name ORDER BY problems DESC, timings DESC, \
             s.contributor \
             LIMIT ",
        )
        .push_bind(i64::from(limit));
        let measured: Vec<MeasuredRow> = db.read_all(select).await?;
        let select = Statement::new(
            "SELECT u.account, COUNT(*) AS uploads, MAX(u.received_at) AS newest_at, \
             SUM(u.log_ratio * u.compared) AS weighted, \
             CAST(SUM(CASE WHEN u.log_ratio IS NULL THEN 0 ELSE u.compared END) AS BIGINT) AS compared \
             FROM uploads u WHERE u.standing = 0 AND u.id IN (SELECT t.upload FROM sent t JOIN solutions s \
             ON s.id = t.solution WHERE s.hardware = ",
        );
        let select = select.push_bind(slug.as_str()).push(") GROUP BY u.account");
        let sent: Vec<SentRow> = db.read_all(select).await?;
        let mut sent: HashMap<_, _> = sent.into_iter().map(|row| (row.account.clone(), row)).collect();
        // If the account of an upload is deleted, its solutions count as sent without an account.
        let joined = measured.into_iter().filter_map(|row| {
            let sent = sent.remove(&row.contributor)?;
            Some(contributor(row, sent))
        });
        Ok(joined.collect::<Result<_, _>>()?)
    }

    /// The uploads that the solutions of a view come from, without quarantined uploads, the newest first.
    pub async fn solution_sources(&self, view: &View, limit: u32) -> StoreResult<Sample<SolutionSource>> {
        let db = &mut self.read_transaction().await?;
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
            "SELECT u.id AS upload, a.name, s.standing, u.received_at, u.hardware, s.timings, s.failures, \
             s.best_us \
             FROM solutions s JOIN uploads u ON u.id = (SELECT v.id FROM sent t JOIN uploads v ON v.id = \
             t.upload \
             WHERE t.solution = s.id ORDER BY v.standing, v.received_at, v.id LIMIT 1) \
             LEFT JOIN accounts a ON a.id = s.contributor WHERE s.hardware = ",
        );
        let select =
            select.push(" ORDER BY u.received_at DESC, s.id DESC LIMIT ").push_bind(i64::from(limit));
        let rows: Vec<SourceRow> = db.read_all(select).await?;
        let items = rows.into_iter().map(|row| row.read(view)).collect::<Result<_, _>>()?;
        Ok(Sample { total: unsigned("solution count", total)?, items })
    }

    /// The problems on which nobody is faster than an account, and how many there are. Problems with the most
    /// operations come first.
    pub async fn records(&self, account: &AccountId, limit: u32) -> StoreResult<Sample<Record>> {
        let db = &mut self.read_transaction().await?;
        let count = Statement::new("SELECT COUNT(*)").push(FASTEST);
        let (total,): (i64,) = db.fetch_one(count.bind(account.as_str())).await?;
        let select = Statement::new("SELECT s.hardware, p.fields, s.best_us, e.entry")
            .push(FASTEST)
            .push(" ORDER BY e.flops DESC, s.hardware, s.problem, s.method LIMIT $2");
        let items = db.read_all(select.bind(account.as_str()).bind(i64::from(limit))).await?;
        Ok(Sample { total: unsigned("record count", total)?, items })
    }
}

fn contributor(measured: MeasuredRow, sent: SentRow) -> Result<HardwareContributor, Damaged> {
    let compared = unsigned("problem count", sent.compared)?;
    Ok(HardwareContributor {
        name: optional("account name", measured.name)?,
        problems: unsigned("problem count", measured.problems)?,
        solutions: unsigned("solution count", measured.solutions)?,
        timings: unsigned("timing count", measured.timings)?,
        uploads: unsigned("upload count", sent.uploads)?,
        newest_at: sent.newest_at,
        log_ratio: sent.weighted.filter(|_| compared > 0).map(|sum| sum / compared as f64),
        compared_problems: compared,
    })
}

/// What the map needs of a problem.
#[derive(Debug, Clone, PartialEq)]
pub struct SizedProblem {
    pub m: u64,
    pub n: u64,
    pub k: u64,
    /// The tile of the best Triton config.
    pub tile: Option<[u32; 3]>,
    pub triton_over_library: Option<f64>,
}

/// The class of a size: all sizes within a factor of √2 of the power of two that is nearest to it.
pub(crate) fn class(size: u64) -> SizeRange {
    // Squares are compared, so that the result is exact.
    let square = u128::from(size) * u128::from(size);
    let power = (0..63).find(|power| square < 1 << (2 * power + 1)).unwrap_or(63);
    let root = |power: u32| (1u128 << power).isqrt() as u64;
    SizeRange { least: if power == 0 { 1 } else { root(2 * power - 1) + 1 }, most: root(2 * power + 1) }
}

/// The map of the problems that pass the filter. `problems` have passed every condition of the filter except
/// its range of K.
pub(crate) fn size_map(problems: &[SizedProblem], filter: &ProblemFilter, method: Method) -> SizeMap {
    let mut depths: BTreeMap<SizeRange, u64> = BTreeMap::new();
    let mut cells: BTreeMap<(SizeRange, SizeRange), Vec<&SizedProblem>> = BTreeMap::new();
    for problem in problems {
        *depths.entry(class(problem.k)).or_default() += 1;
        let is_wanted = filter.min_k.is_none_or(|least| problem.k >= least)
            && filter.max_k.is_none_or(|most| problem.k <= most);
        if is_wanted {
            cells.entry((class(problem.m), class(problem.n))).or_default().push(problem);
        }
    }
    SizeMap {
        method,
        depths: depths.into_iter().map(|(k, problems)| SizeClass { k, problems }).collect(),
        cells: cells.into_iter().map(|((m, n), problems)| cell(m, n, &problems)).collect(),
    }
}

fn cell(m: SizeRange, n: SizeRange, problems: &[&SizedProblem]) -> SizeCell {
    let ratios: Vec<f64> = problems.iter().filter_map(|problem| problem.triton_over_library).collect();
    let mut tiles: BTreeMap<[u32; 3], u64> = BTreeMap::new();
    for tile in problems.iter().filter_map(|problem| problem.tile) {
        *tiles.entry(tile).or_default() += 1;
    }
    // If two tiles win equally often, the smaller one counts.
    let winner = tiles.into_iter().rev().max_by_key(|(_, wins)| *wins);
    SizeCell {
        m,
        n,
        problems: problems.len() as u64,
        compared: ratios.len() as u64,
        triton_over_library: geometric_mean(&ratios),
        tile: winner.map(|(tile, _)| tile),
        tile_problems: winner.map_or(0, |(_, wins)| wins),
    }
}

#[cfg(test)]
mod size_map_size_map_tests {
    use super::*;

    #[test]
    fn classes_meet_between_the_powers_of_two() {
        let of = |size| {
            let SizeRange { least, most } = class(size);
            (least, most)
        };
        assert_eq!([of(1), of(2), of(3), of(5), of(6)], [(1, 1), (2, 2), (3, 5), (3, 5), (6, 11)]);
        assert_eq!((of(4096), of(5792), of(5793)), ((2897, 5792), (2897, 5792), (5793, 11_585)));
        for size in 1..5_000 {
            let (least, most) = of(size);
            assert!(least <= size && size <= most && of(most + 1).0 == most + 1, "{size}");
        }
    }

    #[test]
    fn a_cell_has_the_mean_ratio_and_the_tile_that_wins_most_often() {
        let problem = |m, k, tile, ratio| SizedProblem { m, n: 512, k, tile, triton_over_library: ratio };
        let (small, large) = (Some([64, 64, 64]), Some([128, 256, 64]));
        let problems = [
            problem(1000, 64, large, Some(2.0)),
            problem(1024, 64, small, Some(0.5)),
            problem(1100, 64, large, None),
            problem(16, 64, None, None),
            problem(1024, 4096, small, Some(1.1)),
        ];
        let filter = ProblemFilter { max_k: Some(90), ..ProblemFilter::default() };
        let map = size_map(&problems, &filter, Method::MEDIAN_COLD_EVENT);
        assert_eq!(map.depths.iter().map(|class| class.problems).collect::<Vec<_>>(), [4, 1]);
        let [narrow, wide] = &map.cells[..] else { panic!("{map:?}") };
        assert_eq!((narrow.problems, narrow.compared, narrow.triton_over_library), (1, 0, None));
        assert_eq!((narrow.tile, narrow.tile_problems), (None, 0));
        assert_eq!((wide.problems, wide.compared, wide.triton_over_library), (3, 2, Some(1.0)));
        assert_eq!((wide.tile, wide.tile_problems), (large, 2));
        assert_eq!((wide.m, wide.n), (class(1024), class(512)));
    }
}
