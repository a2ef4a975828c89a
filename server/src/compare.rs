//! Comparisons of hardware, uploads, libraries, methods and models on the problems that both sides share.

pub(crate) mod compare_routes;

use std::collections::BTreeMap;

use diode_api::{
    ComparedProblem, KernelResult, Kernels, LibraryOn, LibraryUse, MethodOn, Noise, ProblemFilter, RatioBin,
    RatioGroup, Ratios, SortOrder, TimedConfig,
};
use diode_core::ids::{HardwareSlug, ProblemId, UploadId};
use diode_core::stats::geometric_mean;
use diode_core::{Config, Problem};

use crate::boards::consensus::BoardEntry;
use crate::boards::listed::Listed;
use crate::boards::survey_store::Sample;
use crate::store::fields::{parse, readable_row, unsigned};
use crate::store::statement::Statement;
use crate::store::{Store, StoreResult};
use crate::uploads::solutions::Damaged;

readable_row!(LibraryUse { library, uploads, problems, newest_at } => LibraryUse {
    name: parse("library", library)?,
    uploads: unsigned("upload count", uploads)?,
    problems: unsigned("problem count", problems)?,
    newest_at,
});

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
        let board = self.board(slug).await?;
        let timed = board.passing(filter).filter(|entry| entry.triton.is_some());
        let items = timed.take(cap as usize).map(|entry| entry.id.clone()).collect();
        Ok(Sample { total: board.timed_problems(Kernels::Triton, filter), items })
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
        let filter = &ProblemFilter { method: Some(a.method), ..*filter };
        let (board, other) = (self.board(&a.hardware).await?, self.board(&b.hardware).await?);
        let is_timed = |entry: &&Listed| entry.of(kernels).is_some();
        let mut shared: Vec<&Listed> = board.passing(filter).filter(is_timed).collect();
        shared.retain(|entry| other.find(&entry.id, b.method).as_ref().is_some_and(is_timed));
        let total = shared.len() as u64;
        shared.truncate(cap as usize);
        let ids: Vec<&ProblemId> = shared.iter().map(|entry| &entry.id).collect();
        let db = &mut self.reader().await?;
        let (_, entries) = db.whole_entries(&a.hardware, &ids).await?;
        let (_, others) = db.whole_entries(&b.hardware, &ids).await?;
        // What was removed meanwhile is left out.
        let pair = |entry: &Listed| {
            let a = timed(entries.get(&(entry.id.clone(), a.method))?, kernels)?;
            let b = timed(others.get(&(entry.id.clone(), b.method))?, kernels)?;
            Some(Pair { problem: entry.problem.clone(), a, b })
        };
        Ok(Sample { total, items: shared.into_iter().filter_map(pair).collect() })
    }

    /// On how many problems of a hardware the kernels were timed.
    pub async fn timed_problems(
        &self,
        slug: &HardwareSlug,
        kernels: Kernels,
        filter: &ProblemFilter,
    ) -> StoreResult<u64> {
        Ok(self.board(slug).await?.timed_problems(kernels, filter))
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

/// `None` if the kernels have no time.
fn timed(entry: &BoardEntry, kernels: Kernels) -> Option<TimedConfig> {
    let of = |kernel: &Option<KernelResult>| kernel.as_ref().map(|kernel| (kernel.config, kernel.us));
    let (config, us) = match kernels {
        Kernels::Triton => of(&entry.triton),
        Kernels::Library => of(&entry.library).map(|(_, us)| (Config::Library, us)),
        Kernels::Everything => Some((entry.best, entry.best_us)),
    }?;
    Some(TimedConfig { config, us })
}

/// How many bars the histogram has.
const BINS: usize = 20;

/// Compares pairs. The answer lists `limit` of them, in the given order of their ratio. The caller fills in the
/// counts of problems that are in no pair.
pub(crate) fn ratios(pairs: Vec<Pair>, noise: Noise, order: SortOrder, limit: usize) -> Ratios {
    let mut items: Vec<ComparedProblem> = pairs.into_iter().filter_map(compared).collect();
    // Equal ratios have the order of ids, so that the answer is always the same.
    items.sort_by(|a, b| a.b_over_a.total_cmp(&b.b_over_a).then_with(|| a.problem_id.cmp(&b.problem_id)));
    let all: Vec<f64> = items.iter().map(|item| item.b_over_a).collect();
    let beyond = 1.0 + noise.share();
    let (slower, faster) = beyond_noise(&all, beyond);
    let groups = groups(&items, beyond);
    if order == SortOrder::Descending {
        items.reverse();
    }
    items.truncate(limit);
    Ratios {
        problems: all.len() as u64,
        slower,
        faster,
        same: all.len() as u64 - slower - faster,
        b_over_a: geometric_mean(&all),
        histogram: histogram(&all),
        groups,
        items,
        ..Ratios::default()
    }
}

/// How many ratios lie below and how many above what noise explains.
fn beyond_noise(ratios: &[f64], beyond: f64) -> (u64, u64) {
    let slower = ratios.iter().filter(|ratio| **ratio < 1.0 / beyond).count();
    let faster = ratios.iter().filter(|ratio| **ratio > beyond).count();
    (slower as u64, faster as u64)
}

/// The bands of M: one row, few rows as in decoding, a small batch, and a large one.
const BANDS: [(u64, u64); 4] = [(1, 16), (17, 128), (129, 1024), (1025, u64::MAX)];

/// The problems by what a filter can tell apart. Where all problems are alike, there is no group.
fn groups(items: &[ComparedProblem], beyond: f64) -> Vec<RatioGroup> {
    type Named = Vec<(&'static str, String)>;
    let named: [fn(&Problem) -> Named; 5] = [
        |p| vec![("op", p.op.to_string())],
        |p| vec![("dtype", p.a_dtype.to_string())],
        |p| {
            let (least, most) = BANDS.into_iter().find(|(_, most)| p.m <= *most).unwrap_or(BANDS[3]);
            let most = (most < u64::MAX).then(|| ("max_m", most.to_string()));
            std::iter::once(("min_m", least.to_string())).chain(most).collect()
        },
        |p| vec![("b_layout", p.b_layout.to_string())],
        |p| {
            let filter = ProblemFilter { aligned: Some(true), ..ProblemFilter::default() };
            vec![("aligned", filter.admits(p).to_string())]
        },
    ];
    let by = |name: fn(&Problem) -> Named| {
        let mut of: BTreeMap<Named, Vec<f64>> = BTreeMap::new();
        for item in items {
            of.entry(name(&item.problem)).or_default().push(item.b_over_a);
        }
        let is_one = of.len() < 2;
        let mut groups: Vec<RatioGroup> = of
            .into_iter()
            .filter(|_| !is_one)
            .filter_map(|(filter, ratios)| {
                let (slower, faster) = beyond_noise(&ratios, beyond);
                Some(RatioGroup {
                    filter: filter.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
                    problems: ratios.len() as u64,
                    slower,
                    faster,
                    b_over_a: geometric_mean(&ratios)?,
                })
            })
            .collect();
        groups.sort_by(|a, b| b.b_over_a.total_cmp(&a.b_over_a));
        groups
    };
    named.into_iter().flat_map(by).collect()
}

/// `None` if a time is zero. Old databases have such times, from before the floor existed.
fn compared(Pair { problem, a, b }: Pair) -> Option<ComparedProblem> {
    let b_over_a = a.us / b.us;
    let is_ratio = b_over_a.is_finite() && b_over_a > 0.0;
    is_ratio.then(|| ComparedProblem { problem_id: problem.id(), problem, a, b, b_over_a })
}

/// The histogram of sorted ratios.
fn histogram(ratios: &[f64]) -> Vec<RatioBin> {
    let (Some(least), Some(most)) = (ratios.first(), ratios.last()) else { return Vec::new() };
    // If all ratios are equal, the bins together are 1 % wide, with the value in the middle.
    let low = least.ln().min((least * most).sqrt().ln() - 0.005);
    let width = (most.ln().max((least * most).sqrt().ln() + 0.005) - low) / BINS as f64;
    let edge = |place: usize| (low + width * place as f64).exp();
    let mut counts = [0; BINS];
    for ratio in ratios {
        counts[(((ratio.ln() - low) / width) as usize).min(BINS - 1)] += 1;
    }
    let bin = |(place, problems)| RatioBin { from: edge(place), to: edge(place + 1), problems };
    counts.into_iter().enumerate().map(bin).collect()
}

#[cfg(test)]
mod ratios_ratios_tests {
    use diode_api::TimedConfig;
    use diode_core::{Config, DType, Op, Problem, ProblemFields};

    use super::*;

    fn pair(m: u64, a: f64, b: f64) -> Pair {
        let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, m, 64, 64, DType::BFloat16)).unwrap();
        let timed = |us| TimedConfig { config: Config::Library, us };
        Pair { problem, a: timed(a), b: timed(b) }
    }

    fn sizes(ratios: &Ratios) -> Vec<u64> {
        ratios.items.iter().map(|item| item.problem.m).collect()
    }

    #[test]
    fn what_is_slower_comes_first_and_noise_counts_as_the_same() {
        let pairs = [pair(1, 10.0, 10.1), pair(2, 10.0, 20.0), pair(3, 10.0, 5.0), pair(4, 0.0, 5.0)];
        let compare =
            |noise: &str, order, limit| ratios(pairs.to_vec(), noise.parse().unwrap(), order, limit);
        let found = compare("2", SortOrder::Ascending, 10);
        assert_eq!((found.problems, found.slower, found.same, found.faster), (3, 1, 1, 1));
        assert_eq!(sizes(&found), [2, 1, 3]);
        assert!((found.b_over_a.unwrap() - (0.5 * 2.0 / 1.01_f64).cbrt()).abs() < 1e-12);
        let found = compare("0", SortOrder::Descending, 2);
        assert_eq!((sizes(&found), found.slower, found.same), (vec![3, 1], 2, 0));
    }

    #[test]
    fn groups_say_where_the_difference_lies() {
        let pairs = vec![pair(1, 8.0, 2.0), pair(16, 1.0, 1.0), pair(17, 3.0, 1.0), pair(2000, 1.0, 2.0)];
        let found = ratios(pairs, Noise::default(), SortOrder::Ascending, 0);
        let said = |group: &RatioGroup| {
            let of = |key: &str| group.filter.get(key).map(String::as_str);
            (
                of("min_m").map(str::to_owned),
                of("max_m").map(str::to_owned),
                group.problems,
                group.slower,
                group.faster,
            )
        };
        let m = |least: &str, most: Option<&str>| (Some(least.to_owned()), most.map(str::to_owned));
        let expected =
            [(m("17", Some("128")), 1, 0, 1), (m("1", Some("16")), 2, 0, 1), (m("1025", None), 1, 1, 0)];
        let expected =
            expected.map(|((least, most), problems, slower, faster)| (least, most, problems, slower, faster));
        assert_eq!(found.groups.iter().map(said).collect::<Vec<_>>(), expected);
        assert!((found.groups[1].b_over_a - 2.0).abs() < 1e-12);
    }

    #[test]
    fn every_ratio_is_in_one_bin() {
        for pairs in [vec![pair(1, 1.0, 1.0)], (1..200).map(|m| pair(m, 1.0, m as f64)).collect()] {
            let number = pairs.len() as u64;
            let found = ratios(pairs, Noise::default(), SortOrder::Ascending, 1);
            assert_eq!(found.histogram.len(), BINS);
            assert_eq!(found.histogram.iter().map(|bin| bin.problems).sum::<u64>(), number);
            assert!(found.histogram.windows(2).all(|pair| pair[0].to == pair[1].from));
        }
        let none = ratios(Vec::new(), Noise::default(), SortOrder::Ascending, 1);
        assert_eq!(none, Ratios::default());
    }
}
