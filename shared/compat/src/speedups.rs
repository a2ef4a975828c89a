//! Compares a model's picks with reference configs: how much faster or slower the best of the first
//! N picks is than the best reference config.

use std::collections::{BTreeMap, BTreeSet};

use diode_core::stats::{mean, quantile};
use diode_core::{Config, Op, Problem, Tile};
use diode_train::Judged;
use serde::{Serialize, Serializer};

use crate::reference_configs::ReferenceConfigs;

/// The numbers of picks to compare.
const PICKS: [usize; 7] = [1, 5, 10, 20, 50, 100, 500];

/// A problem, and the best time of the reference configs on it.
pub struct Compared<'a> {
    pub judged: &'a Judged,
    pub reference_us: f64,
}

/// The comparison for every number of picks, per op and over all ops.
#[derive(Serialize)]
pub struct Speedups {
    pub per_op: BTreeMap<Op, ByPicks>,
    pub overall: ByPicks,
}

impl Speedups {
    pub fn new(compared: &[Compared<'_>]) -> Self {
        let mut by_op: BTreeMap<Op, Vec<&Compared<'_>>> = BTreeMap::new();
        for one in compared {
            by_op.entry(one.judged.problem.op).or_default().push(one);
        }
        let per_op =
            by_op.into_iter().map(|(op, compared)| (op, ByPicks::new(Some(op), &compared))).collect();
        Self { per_op, overall: ByPicks::new(None, &compared.iter().collect::<Vec<_>>()) }
    }
}

/// Serialized as a map with the keys `top_1`, `top_5` …, in this order.
pub struct ByPicks(pub Vec<Summary>);

impl ByPicks {
    fn new(op: Option<Op>, compared: &[&Compared<'_>]) -> Self {
        Self(PICKS.iter().map(|&picks| Summary::new(op, picks, compared)).collect())
    }
}

impl Serialize for ByPicks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|summary| (format!("top_{}", summary.top_n), summary)))
    }
}

/// The comparison for one number of picks. Ratios are the reference's time / the model's: above 1,
/// the model is faster.
#[derive(Serialize)]
pub struct Summary {
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<Op>,
    pub top_n: usize,
    pub shapes_analyzed: usize,
    pub performance_breakdown: Breakdown,
    pub overall_metrics: Metrics,
    distribution: BTreeMap<&'static str, f64>,
    raw_times: RawTimes,
    shape_details: Vec<ShapeDetail>,
}

#[derive(Serialize)]
pub struct Breakdown {
    pub model_better: Better,
    pub model_worse: Worse,
    pub model_equal: Equal,
}

#[derive(Serialize)]
pub struct Better {
    pub count: usize,
    percentage: f64,
    avg_speedup: f64,
    best_speedup: f64,
}

/// The problems on which the model is slower. Their ratios are below 1, and the worst slowdown is
/// the smallest ratio.
#[derive(Serialize)]
pub struct Worse {
    pub count: usize,
    percentage: f64,
    avg_slowdown: f64,
    best_slowdown: f64,
    worst_slowdown: f64,
}

#[derive(Serialize)]
pub struct Equal {
    pub count: usize,
    percentage: f64,
}

#[derive(Serialize)]
pub struct Metrics {
    avg_speedup_ratio: f64,
    pub median_speedup_ratio: f64,
    std_speedup_ratio: f64,
    pub total_time_saved_pct: f64,
    best_case: f64,
    pub worst_case: f64,
}

#[derive(Serialize)]
struct RawTimes {
    total_model_time: f64,
    total_ma_time: f64,
}

#[derive(Serialize)]
struct ShapeDetail {
    /// JSON text with the fields of torch-diode's `MMShape`.
    shape: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<Op>,
    model_time: f64,
    ma_time: f64,
    speedup_ratio: f64,
    performance: &'static str,
}

impl Summary {
    fn new(op: Option<Op>, picks: usize, compared: &[&Compared<'_>]) -> Self {
        let details: Vec<ShapeDetail> =
            compared.iter().map(|one| ShapeDetail::new(one, picks, op.is_none())).collect();
        let mut ratios: Vec<f64> = details.iter().map(|detail| detail.speedup_ratio).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let total_model_time: f64 = details.iter().map(|detail| detail.model_time).sum();
        let total_ma_time: f64 = details.iter().map(|detail| detail.ma_time).sum();
        let percentiles = [
            ("p10", 0.1),
            ("p25", 0.25),
            ("p50", 0.5),
            ("p75", 0.75),
            ("p90", 0.9),
            ("p95", 0.95),
            ("p99", 0.99),
        ];
        Self {
            op,
            top_n: picks,
            shapes_analyzed: details.len(),
            performance_breakdown: Breakdown::new(&ratios),
            overall_metrics: Metrics {
                avg_speedup_ratio: mean(ratios.iter().copied()),
                median_speedup_ratio: percentile(&ratios, 0.5),
                std_speedup_ratio: deviation(&ratios),
                total_time_saved_pct: 100.0 * (total_ma_time - total_model_time) / total_ma_time,
                best_case: ratios.last().copied().unwrap_or(0.0),
                worst_case: ratios.first().copied().unwrap_or(0.0),
            },
            distribution: percentiles.into_iter().map(|(name, at)| (name, percentile(&ratios, at))).collect(),
            raw_times: RawTimes { total_model_time, total_ma_time },
            shape_details: details,
        }
    }
}

impl Breakdown {
    /// Counts and averages of ratios, which must be in ascending order.
    fn new(ratios: &[f64]) -> Self {
        let slower = &ratios[..ratios.partition_point(|&ratio| ratio < 1.0)];
        let faster = &ratios[ratios.partition_point(|&ratio| ratio <= 1.0)..];
        let equal = ratios.len() - slower.len() - faster.len();
        let percentage = |count: usize| 100.0 * count as f64 / ratios.len().max(1) as f64;
        let end = |end: Option<&f64>| end.copied().unwrap_or(0.0);
        Self {
            model_better: Better {
                count: faster.len(),
                percentage: percentage(faster.len()),
                avg_speedup: mean(faster.iter().copied()),
                best_speedup: end(faster.last()),
            },
            model_worse: Worse {
                count: slower.len(),
                percentage: percentage(slower.len()),
                avg_slowdown: mean(slower.iter().copied()),
                best_slowdown: end(slower.last()),
                worst_slowdown: end(slower.first()),
            },
            model_equal: Equal { count: equal, percentage: percentage(equal) },
        }
    }
}

impl ShapeDetail {
    fn new(compared: &Compared<'_>, picks: usize, with_op: bool) -> Self {
        let problem = &compared.judged.problem;
        let model_us = compared.judged.best_of(picks);
        let ratio = compared.reference_us / model_us;
        Self {
            shape: shape(problem),
            op: with_op.then_some(problem.op),
            model_time: model_us / 1e3,
            ma_time: compared.reference_us / 1e3,
            speedup_ratio: ratio,
            performance: match ratio {
                ratio if ratio > 1.0 => "better",
                ratio if ratio < 1.0 => "worse",
                _ => "equal",
            },
        }
    }
}

fn shape(problem: &Problem) -> String {
    let p = &**problem;
    let out = p.out_layout.unwrap_or(diode_core::OutputLayout::dense(p.b, p.m, p.n));
    format!(
        r#"{{"version": 1, "B": {}, "M": {}, "M_dtype": "{}", "N": {}, "K": {}, "K_dtype": "{}", "out_dtype": "{}", "out_size": {:?}, "out_stride": {:?}}}"#,
        p.b, p.m, p.a_dtype, p.n, p.k, p.b_dtype, p.out_dtype, out.size, out.stride
    )
}

/// The standard deviation of the values as a whole population, not of a sample.
fn deviation(values: &[f64]) -> f64 {
    let middle = mean(values.iter().copied());
    mean(values.iter().map(|value| (value - middle).powi(2))).sqrt()
}

/// A percentile. Of no values it is 0, as in torch-diode's report.
fn percentile(ascending: &[f64], share: f64) -> f64 {
    quantile(ascending, share).unwrap_or(0.0)
}

/// The result of a comparison.
pub struct Comparison {
    pub speedups: Speedups,
    pub ops: Vec<Op>,
    /// What readers of the numbers should know.
    pub notes: Vec<String>,
}

/// Compares on every problem on which a reference config was timed. `None` if there is no such problem.
pub fn compare(judged: &[Judged], reference: &ReferenceConfigs) -> Option<Comparison> {
    let compared: Vec<Compared<'_>> = judged.iter().filter_map(|judged| against(judged, reference)).collect();
    if compared.is_empty() {
        return None;
    }
    let ops: BTreeSet<Op> = judged.iter().map(|judged| judged.problem.op).collect();
    let mut notes = Vec::new();
    for &op in &ops {
        let of_op = |problem: &Problem| problem.op == op;
        let all = judged.iter().filter(|judged| of_op(&judged.problem)).count();
        let with = compared.iter().filter(|compared| of_op(&compared.judged.problem)).count();
        if with < all {
            notes
                .push(format!("{op}: {} of {all} problems have no timing of a reference config", all - with));
        }
    }
    Some(Comparison { speedups: Speedups::new(&compared), ops: ops.into_iter().collect(), notes })
}

/// `None` if no reference config was timed on the problem.
fn against<'a>(judged: &'a Judged, reference: &ReferenceConfigs) -> Option<Compared<'a>> {
    let wanted: Vec<Key> =
        reference.for_problem(&judged.problem).iter().filter_map(Key::from_config).collect();
    judged
        .rows
        .iter()
        .filter(|row| Key::from_config(&row.config).is_some_and(|key| wanted.contains(&key)))
        .map(|row| row.measured_us)
        .min_by(f64::total_cmp)
        .map(|reference_us| Compared { judged, reference_us })
}

/// The fields by which two configs are the same choice. The other fields follow from the problem
/// (`EVEN_K`), or are set alike for both (TF32, sums).
#[derive(PartialEq, Eq)]
struct Key([u32; 6]);

impl Key {
    fn from_config(config: &Config) -> Option<Self> {
        let &Tile { block_m, block_n, block_k, group_m, num_stages, num_warps, .. } = config.tile()?;
        Some(Self([block_m, block_n, block_k, group_m, num_stages, num_warps]))
    }
}

#[cfg(test)]
mod tests {
    use crate::reference_configs::{ReferenceConfig, Scope};
    use diode_core::{AccType, Config, DType, ProblemFields, Tile};
    use diode_train::JudgedRow;
    use serde_json::Value;

    use super::*;

    /// A problem whose configs have these measured times. The model predicts them in the same
    /// order.
    fn judged(op: Op, measured_us: &[f64]) -> Judged {
        let problem = Problem::new(ProblemFields::plain(op, 1, 64, 128, 32, DType::Float16)).unwrap();
        let row = |(place, &measured_us): (usize, &f64)| JudgedRow {
            config: Config::Mm(Tile::new(16 << place, 64, 32, 3, 4)),
            predicted_ln: place as f64,
            measured_us,
        };
        Judged {
            problem,
            rows: measured_us.iter().enumerate().map(row).collect(),
            ranked: None,
            library_us: None,
            rank_us: 0.0,
        }
    }

    #[test]
    fn the_worst_slowdown_is_the_smallest_ratio() {
        let problems = [
            judged(Op::Mm, &[20.0, 10.0]),
            judged(Op::Mm, &[10.0, 40.0]),
            judged(Op::Mm, &[12.5, 11.0]),
            judged(Op::Addmm, &[5.0, 8.0]),
        ];
        // Ratios of the first picks: 0.5, 1, 0.8 and 2.
        let compared: Vec<Compared<'_>> =
            problems.iter().map(|judged| Compared { judged, reference_us: 10.0 }).collect();
        let report: Value = serde_json::to_value(Speedups::new(&compared)).unwrap();
        let mm = &report["per_op"]["mm"]["top_1"];
        assert_eq!((&mm["op"], &mm["shapes_analyzed"]), (&"mm".into(), &3.into()));
        let worse = &mm["performance_breakdown"]["model_worse"];
        assert_eq!(
            (&worse["count"], &worse["worst_slowdown"], &worse["best_slowdown"]),
            (&2.into(), &0.5.into(), &0.8.into())
        );
        assert_eq!(worse["avg_slowdown"], 0.65);
        assert_eq!(mm["performance_breakdown"]["model_equal"]["count"], 1);
        let all = &report["overall"]["top_1"];
        assert_eq!(all["performance_breakdown"]["model_better"]["best_speedup"], 2.0);
        assert_eq!(all["overall_metrics"]["median_speedup_ratio"], 0.9);
        assert_eq!(all["overall_metrics"]["worst_case"], 0.5);
        // In µs: the reference takes 40 in all, the first picks 20 + 10 + 12.5 + 5.
        let saved = all["overall_metrics"]["total_time_saved_pct"].as_f64().unwrap();
        assert!((saved + 18.75).abs() < 1e-9, "{saved}");
        assert_eq!(all["raw_times"]["total_ma_time"], 0.04);
        let detail = &all["shape_details"][0];
        assert_eq!(
            (&detail["model_time"], &detail["performance"], &detail["op"]),
            (&0.02.into(), &"worse".into(), &"mm".into())
        );
        let shape: Value = serde_json::from_str(detail["shape"].as_str().unwrap()).unwrap();
        assert_eq!((&shape["N"], &shape["out_stride"]), (&128.into(), &serde_json::json!([8192, 128, 1])));
        // Each problem has only two configs, so five picks include both.
        assert_eq!(report["per_op"]["mm"]["top_5"]["performance_breakdown"]["model_worse"]["count"], 1);
    }

    #[test]
    fn percentiles_are_interpolated() {
        let values = [1.0, 2.0, 3.0, 5.0];
        assert_eq!(percentile(&values, 0.5), 2.5);
        assert_eq!(percentile(&values, 0.9), 4.4);
        assert_eq!(percentile(&values, 0.0), 1.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
        assert_eq!(deviation(&[1.0, 3.0]), 1.0);
    }

    #[test]
    fn names_sums_and_even_k_do_not_tell_configs_apart() {
        let problem = Problem::new(ProblemFields::plain(Op::Bmm, 2, 64, 64, 64, DType::Float16)).unwrap();
        let row =
            |tile: Tile, measured_us| JudgedRow { config: Config::Bmm(tile), predicted_ln: 0.0, measured_us };
        let tile = Tile::new(64, 32, 16, 2, 4);
        let rows = vec![row(tile.for_k(64), 3.0), row(Tile { group_m: 4, ..tile }, 1.0)];
        let judged = Judged { problem, rows, ranked: None, library_us: None, rank_us: 0.0 };
        let reference =
            |tile| ReferenceConfigs { configs: vec![ReferenceConfig { scope: Scope::Everything, tile }] };
        let float16 = Tile { acc_type: AccType::Float16, ..tile };
        assert_eq!(against(&judged, &reference(float16)).unwrap().reference_us, 3.0);
        assert!(against(&judged, &reference(Tile::new(16, 32, 16, 2, 4))).is_none());
    }
}
