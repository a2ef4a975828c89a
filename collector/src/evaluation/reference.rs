//! Compares a model's picks with the configs that an autotuner would try.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::bail;
use diode_core::{Config, Op, Problem, Tile};
use diode_formats::ReferenceConfigs;
use diode_train::Judged;

use super::speedups::{Compared, Speedups};
use crate::output;

/// The result of a comparison.
pub(crate) struct Comparison {
    pub(crate) speedups: Speedups,
    pub(crate) ops: Vec<Op>,
    /// What readers of the numbers should know.
    pub(crate) notes: Vec<String>,
}

/// Compares on every problem on which a reference config was timed.
pub(crate) fn compare(
    judged: &[Judged],
    reference: &ReferenceConfigs,
    path: &Path,
) -> anyhow::Result<Comparison> {
    let compared: Vec<Compared<'_>> = judged.iter().filter_map(|judged| against(judged, reference)).collect();
    if compared.is_empty() {
        bail!(
            "{}: none of its {} is among the timings of any problem; the dataset must hold timings of the \
             reference configs too",
            path.display(),
            output::count(reference.configs.len(), "config")
        );
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
    Ok(Comparison { speedups: Speedups::of(&compared), ops: ops.into_iter().collect(), notes })
}

/// `None` if no reference config was timed on the problem.
fn against<'a>(judged: &'a Judged, reference: &ReferenceConfigs) -> Option<Compared<'a>> {
    let wanted: Vec<Key> = reference.for_problem(&judged.problem).iter().filter_map(Key::of).collect();
    judged
        .rows
        .iter()
        .filter(|row| Key::of(&row.config).is_some_and(|key| wanted.contains(&key)))
        .map(|row| row.measured_us)
        .min_by(f64::total_cmp)
        .map(|reference_us| Compared { judged, reference_us })
}

/// The fields by which two configs are the same choice. The other fields follow from the problem
/// (`EVEN_K`), or are set alike for both (TF32, sums).
#[derive(PartialEq, Eq)]
struct Key([u32; 6]);

impl Key {
    fn of(config: &Config) -> Option<Self> {
        let &Tile { block_m, block_n, block_k, group_m, num_stages, num_warps, .. } = config.tile()?;
        Some(Self([block_m, block_n, block_k, group_m, num_stages, num_warps]))
    }
}

/// The comparison as a table for people.
pub(crate) fn in_words(speedups: &Speedups) -> String {
    let mut groups: Vec<(String, _)> =
        speedups.per_op.iter().map(|(op, by_picks)| (op.to_string(), by_picks)).collect();
    if groups.len() > 1 {
        groups.push(("all".to_owned(), &speedups.overall));
    }
    let mut rows = Vec::new();
    for (op, by_picks) in groups {
        for summary in &by_picks.0 {
            let (breakdown, metrics) = (&summary.performance_breakdown, &summary.overall_metrics);
            rows.push(vec![
                op.clone(),
                format!("top {}", summary.top_n),
                summary.shapes_analyzed.to_string(),
                format!("{:.3}x", metrics.median_speedup_ratio),
                format!("{:.3}x", metrics.worst_case),
                breakdown.model_better.count.to_string(),
                breakdown.model_equal.count.to_string(),
                breakdown.model_worse.count.to_string(),
                format!("{:.1} %", metrics.total_time_saved_pct),
            ]);
        }
    }
    let header =
        ["op", "picks", "problems", "median speedup", "worst", "faster", "equal", "slower", "time saved"];
    output::table(&header, &rows, 2)
}

#[cfg(test)]
mod tests {
    use diode_core::{AccType, DType, ProblemFields};
    use diode_formats::{ReferenceConfig, Scope};

    use diode_train::JudgedRow;

    use super::*;

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
