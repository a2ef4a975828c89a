use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use diode_core::hardware::roofline;
use diode_core::stats::upper_median;
use diode_core::{Config, DType, Dataset, FailureReason, Method, Op, Problem, Scaling, Solution, Tflops};
use serde::Serialize;

use crate::input::arguments::whole;
use crate::input::datasets;
use crate::output;

/// Count what datasets hold and show their fastest configs
///
/// Per operator, input type with its scaling, and method: problems, timings, failures and their
/// reasons, the best rate and its share of the roofline; where the dataset says
/// it, how much repeats spread and how often the library beats every Triton config.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode stats cpu.msgpack.zst")]
pub(crate) struct Stats {
    /// Datasets to read, in any format, or folders of datasets
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// How many problems to show, the fastest first
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = whole::<usize>)]
    top: usize,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Stats {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let (mut formats, mut datasets) = (BTreeSet::new(), Vec::new());
        for decoded in datasets::decode(&self.files, &[])? {
            formats.insert(decoded.format.to_string());
            datasets.extend(decoded.datasets);
        }
        let format = formats.into_iter().collect::<Vec<_>>().join(", ");
        let report = Report::new(format, &datasets, self.top);
        if self.json { output::json(&report) } else { output::text_out(&report.in_words()) }
    }
}

/// What `stats` prints as JSON.
#[derive(Serialize)]
pub(crate) struct Report {
    format: String,
    groups: Vec<SolutionGroup>,
    fastest: Vec<Fastest>,
}

/// The best config of one problem.
#[derive(Serialize)]
struct Fastest {
    hardware: String,
    problem: Problem,
    config: Config,
    time_us: f64,
    tflops: f64,
}

impl Report {
    /// The report on datasets that were read in these formats, with the `top` fastest problems.
    pub(crate) fn new(format: String, datasets: &[Dataset], top: usize) -> Self {
        let mut fastest: Vec<Fastest> = datasets
            .iter()
            .flat_map(|dataset| dataset.solutions.iter().filter_map(|s| Fastest::from_solution(dataset, s)))
            .collect();
        fastest.sort_by(|a, b| b.tflops.total_cmp(&a.tflops));
        fastest.truncate(top);
        Self { format, groups: groups(datasets), fastest }
    }

    pub(crate) fn in_words(&self) -> String {
        let groups: Vec<Vec<String>> = self.groups.iter().map(group).collect();
        let rows: Vec<Vec<String>> = self.fastest.iter().map(fastest).collect();
        let header = [
            "hardware",
            "op",
            "dtype",
            "method",
            "problems",
            "timings",
            "failures",
            "best rate",
            "of roofline",
            "noise",
        ];
        let summary = output::table(&header, &groups, 4);
        let details: String = self.groups.iter().map(details).collect();
        let mut text = format!("Format: {}\n\n{summary}{details}", self.format);
        if !rows.is_empty() {
            let header = ["hardware", "op", "dtype", "best config", "M×N×K", "time", "rate"];
            text.push('\n');
            text.push_str(&output::table(&header, &rows, 4));
        }
        text
    }
}

impl Fastest {
    /// `None` if every config of the problem failed.
    fn from_solution(dataset: &Dataset, solution: &Solution) -> Option<Self> {
        let BestTime { config, time_us, tflops, .. } = BestTime::from_solution(dataset, solution)?;
        let (hardware, problem) = (dataset.hardware.slug.to_string(), solution.problem.clone());
        Some(Self { hardware, problem, config, time_us, tflops })
    }
}

/// The best time of a problem.
pub(crate) struct BestTime {
    config: Config,
    time_us: f64,
    pub(crate) tflops: f64,
    /// The roofline's time / the time. `None` if the hardware's peaks are not known.
    pub(crate) roofline_share: Option<f64>,
}

impl BestTime {
    /// `None` if every config of the problem failed.
    pub(crate) fn from_solution(dataset: &Dataset, solution: &Solution) -> Option<Self> {
        let row = solution.times.fastest()?;
        let time = solution.times.nanos(row).micros();
        let config = *dataset.configs.get(solution.configs[row]);
        let (facts, problem) = (dataset.hardware.facts.as_ref(), &solution.problem);
        let least = facts.and_then(|facts| roofline(facts, problem, config.rounds_to_tf32()));
        Some(Self {
            config,
            time_us: time.0,
            tflops: Tflops::from_work(problem.flops(), time).0,
            roofline_share: least.map(|least| least.0 / time.0),
        })
    }
}

/// Solutions that may be compared with each other.
#[derive(Serialize)]
struct SolutionGroup {
    hardware: String,
    op: Op,
    dtype: DType,
    scaling: Scaling,
    method: Method,
    problems: usize,
    timings: usize,
    failures: usize,
    failures_by_reason: BTreeMap<FailureReason, usize>,
    best_tflops: Option<f64>,
    /// The highest share of the roofline that a problem reaches: the roofline's time / the
    /// problem's best time. null if the hardware's peaks are not known.
    best_roofline_share: Option<f64>,
    /// The median of (interquartile range / time) over near-best times, where known.
    noise: Option<f64>,
    /// The comparison with the vendor's library, over the problems on which both were timed.
    library: Option<Library>,
}

/// The library compared with the best Triton config of each problem.
#[derive(Serialize)]
pub(crate) struct Library {
    /// Problems with both times.
    pub(crate) problems: usize,
    pub(crate) library_wins: usize,
    /// The geometric mean of the library's time / the best Triton time.
    pub(crate) time_ratio: f64,
}

impl Library {
    /// `None` if there are no ratios. See [`library_ratio`].
    pub(crate) fn from_ratios(ratios: &[f64]) -> Option<Self> {
        let logarithms: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
        (!ratios.is_empty()).then(|| Self {
            problems: ratios.len(),
            library_wins: ratios.iter().filter(|&&ratio| ratio < 1.0).count(),
            time_ratio: (logarithms / ratios.len() as f64).exp(),
        })
    }
}

type GroupKey = (String, Op, DType, Scaling, Method);
type Solutions<'a> = Vec<(&'a Dataset, &'a Solution)>;

fn groups(datasets: &[Dataset]) -> Vec<SolutionGroup> {
    let mut groups: BTreeMap<GroupKey, Solutions<'_>> = BTreeMap::new();
    for dataset in datasets {
        for solution in &dataset.solutions {
            let p = &solution.problem;
            let key = (dataset.hardware.slug.to_string(), p.op, p.a_dtype, p.scaling, solution.method);
            groups.entry(key).or_default().push((dataset, solution));
        }
    }
    groups.into_iter().map(|(key, solutions)| SolutionGroup::new(key, &solutions)).collect()
}

impl SolutionGroup {
    fn new((hardware, op, dtype, scaling, method): GroupKey, solutions: &Solutions<'_>) -> Self {
        let each = || solutions.iter().map(|(_, solution)| *solution);
        let mut failures_by_reason = BTreeMap::new();
        for failure in each().flat_map(|solution| &solution.failures) {
            *failures_by_reason.entry(failure.reason).or_default() += 1;
        }
        let best: Vec<BestTime> =
            solutions.iter().filter_map(|(dataset, s)| BestTime::from_solution(dataset, s)).collect();
        let ratios: Vec<f64> =
            solutions.iter().filter_map(|(dataset, s)| library_ratio(dataset, s)).collect();
        Self {
            hardware,
            op,
            dtype,
            scaling,
            method,
            problems: solutions.len(),
            timings: each().map(|solution| solution.configs.len()).sum(),
            failures: failures_by_reason.values().sum(),
            failures_by_reason,
            best_tflops: best.iter().map(|best| best.tflops).reduce(f64::max),
            best_roofline_share: best.iter().filter_map(|best| best.roofline_share).reduce(f64::max),
            noise: upper_median(&mut each().flat_map(spreads_within_5_percent).collect::<Vec<_>>()),
            library: Library::from_ratios(&ratios),
        }
    }
}

/// A config within this factor of its problem's best counts as near-best.
const CHOICE_FACTOR: f64 = 1.05;
/// The fewest launches whose quartiles mean something.
const MIN_REPEATS: u32 = 5;

/// The interquartile range / the time, for each time within 5 % of the best.
pub(crate) fn spreads_within_5_percent(solution: &Solution) -> Vec<f64> {
    let (Some(spread), Some(best)) = (&solution.spread_ns, solution.times.fastest()) else {
        return Vec::new();
    };
    let limit = solution.times.nanos(best).0 * CHOICE_FACTOR;
    let repeated = |row: usize| solution.repeats.as_ref().is_none_or(|repeats| repeats[row] >= MIN_REPEATS);
    let rows = (0..solution.times.len()).map(|row| (row, solution.times.nanos(row).0));
    rows.filter(|&(row, time)| time <= limit && repeated(row))
        .map(|(row, time)| spread[row] as f64 / time)
        .collect()
}

/// The library's time / the best Triton time. If this Triton config rounds to TF32, so does the library. `None` if
/// the problem lacks either time.
pub(crate) fn library_ratio(dataset: &Dataset, solution: &Solution) -> Option<f64> {
    let rows = || {
        let configs = solution.configs.iter().map(|index| dataset.configs.get(*index));
        configs.zip(solution.times.iter_nanos().map(|time| time.0))
    };
    let triton = rows().filter(|(config, _)| !config.is_library());
    let (config, best) = triton.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let library = Config::library(config.rounds(&solution.problem));
    let (_, time) = rows().find(|(config, _)| **config == library)?;
    Some(time / best)
}

/// A type and how it is scaled: `float8_e4m3fn by row`.
fn scaled(dtype: DType, scaling: Scaling) -> String {
    if scaling == Scaling::None { dtype.to_string() } else { format!("{dtype} by {scaling}") }
}

fn group(g: &SolutionGroup) -> Vec<String> {
    let percent = |share: Option<f64>| {
        share.map_or("–".to_owned(), |share| format!("{} %", output::significant(100.0 * share)))
    };
    vec![
        g.hardware.clone(),
        g.op.to_string(),
        scaled(g.dtype, g.scaling),
        g.method.to_string(),
        g.problems.to_string(),
        g.timings.to_string(),
        g.failures.to_string(),
        g.best_tflops.map_or("none".to_owned(), output::rate),
        percent(g.best_roofline_share),
        percent(g.noise),
    ]
}

/// Figures that only some groups have.
fn details(g: &SolutionGroup) -> String {
    let mut text = String::new();
    let name = format!("{} {} {} {}", g.hardware, g.op, scaled(g.dtype, g.scaling), g.method);
    // Writing to a String cannot fail.
    if !g.failures_by_reason.is_empty() {
        let reasons = g.failures_by_reason.iter().map(|(reason, count)| format!("{count} {reason}"));
        let _ = writeln!(text, "\nFailures of {name}: {}", reasons.collect::<Vec<_>>().join(", "));
    }
    if let Some(library) = &g.library {
        let _ = writeln!(
            text,
            "\nLibrary against the best Triton config of {name}: wins {} of {}, {} of its time in the geometric mean",
            library.library_wins,
            output::count(library.problems, "problem"),
            output::significant(library.time_ratio),
        );
    }
    text
}

fn fastest(f: &Fastest) -> Vec<String> {
    let p = &f.problem;
    vec![
        f.hardware.clone(),
        p.op.to_string(),
        scaled(p.a_dtype, p.scaling),
        f.config.label(),
        p.dims(),
        output::duration(f.time_us),
        output::rate(f.tflops),
    ]
}

#[cfg(test)]
mod statistics_tests {
    use diode_core::hardware::Hardware;
    use diode_core::{Config, ConfigIndex, Failure, Problem, ProblemFields, Provenance, Tile, TimeColumn};

    use super::*;

    #[test]
    fn counts_noise_and_the_library_are_per_method() {
        let problem =
            Problem::new(ProblemFields::plain(Op::Mm, 1, 4096, 4096, 4096, DType::BFloat16)).unwrap();
        let solution = |method, nanos: Vec<u64>, spread: Option<Vec<u64>>| Solution {
            problem: problem.clone(),
            method,
            configs: (0..nanos.len() as u32).map(ConfigIndex).collect(),
            times: TimeColumn::from_nanos(nanos).unwrap(),
            minimum_ns: None,
            spread_ns: spread,
            repeats: None,
            failures: vec![Failure { config: ConfigIndex(0), reason: FailureReason::Compile }],
        };
        let dataset = Dataset {
            hardware: Hardware::from_name("NVIDIA H200").unwrap(),
            provenance: Provenance::default(),
            configs: [Config::Mm(Tile::new(128, 128, 64, 3, 4)), Config::Library].into_iter().collect(),
            solutions: vec![
                solution(Method::MEDIAN_COLD_EVENT, vec![400_000, 200_000], Some(vec![4_000, 4_000])),
                solution(Method::Unspecified, vec![277_600], None),
            ],
        };
        let groups = groups(&[dataset]);
        let [unspecified, measured] = &groups[..] else { panic!("two methods") };
        assert_eq!((measured.problems, measured.timings, measured.failures), (1, 2, 1));
        assert_eq!(measured.failures_by_reason[&FailureReason::Compile], 1);
        assert_eq!(measured.noise, Some(0.02), "that of the best alone: the other is twice as slow");
        let library = measured.library.as_ref().unwrap();
        assert_eq!((library.problems, library.library_wins), (1, 1));
        assert!((library.time_ratio - 0.5).abs() < 1e-12);
        assert!((unspecified.best_roofline_share.unwrap() - 0.5).abs() < 1e-3, "138.8 of 277.6 µs");
        assert!(unspecified.library.is_none() && unspecified.noise.is_none());
    }

    #[test]
    fn scalings_are_counted_apart() {
        let solution = |scaling| {
            let plain = ProblemFields::plain(Op::ScaledMm, 1, 16, 4096, 4096, DType::Float8E4M3);
            Solution {
                problem: Problem::new(ProblemFields { scaling, ..plain }).unwrap(),
                method: Method::MEDIAN_COLD_EVENT,
                configs: vec![ConfigIndex(0)],
                times: TimeColumn::from_nanos(vec![20_000]).unwrap(),
                minimum_ns: None,
                spread_ns: None,
                repeats: None,
                failures: Vec::new(),
            }
        };
        let dataset = Dataset {
            hardware: Hardware::from_name("NVIDIA H200").unwrap(),
            provenance: Provenance::default(),
            configs: [Config::Mm(Tile::new(16, 64, 256, 3, 4))].into_iter().collect(),
            solutions: [Scaling::Row, Scaling::Tensor, Scaling::Row].map(solution).into(),
        };
        let report = Report::new("columnar".to_owned(), &[dataset], 5);
        let counts: Vec<_> = report.groups.iter().map(|group| (group.scaling, group.problems)).collect();
        assert_eq!(counts, [(Scaling::Tensor, 1), (Scaling::Row, 2)]);
        assert!(report.in_words().contains("scaled_mm  float8_e4m3fn by row"), "{}", report.in_words());
    }
}
