//! Makes datasets fit torch-diode's format. Several problems or configs may become one in it.
//!
//! Timings of different things are never mixed. If the format cannot tell several things apart, one
//! of them is kept and the others are counted.

use std::collections::{BTreeMap, HashMap, HashSet};

use diode_core::hardware::Hardware;
use diode_core::space::config_for;
use diode_core::{
    Bias, Config, ConfigDictionary, ConfigIndex, Dataset, Failure, FailureReason, Layout, Method, Problem,
    ProblemFields, Solution, Tile, TimeColumn,
};

use crate::nested::shape;

/// The problem as the format holds it: in the op's usual layouts, with a bias of the output's size.
pub(crate) fn plain(problem: &Problem) -> Problem {
    let bias = if problem.op.has_bias() { Bias::Matrix } else { Bias::None };
    let b_layout = problem.op.usual_b_layout();
    let fields = ProblemFields { a_layout: Layout::Row, b_layout, bias, ..problem.clone().into_fields() };
    Problem::new(fields).expect("neither layouts nor the form of a bias make a problem invalid")
}

/// The datasets without what the format cannot hold, such as timings of configs that it does not
/// have. Sentences say what is left out because the format could not tell it from something else.
pub(crate) fn reduce(datasets: &[Dataset]) -> (Vec<Dataset>, Vec<String>) {
    let kept = Kept::of(datasets);
    let mut left_out = LeftOut::default();
    let reduced = datasets.iter().map(|dataset| reduce_dataset(dataset, &kept, &mut left_out)).collect();
    (reduced, left_out.sentences())
}

/// What distinguishes solutions in the format: the hardware's name, and the problem as the format
/// holds it.
type Key<'a> = (&'a str, Problem);

/// The problem that is kept under each key, and the method of its first solution. Of the problems
/// with one key, a row-major problem is kept, or else the first problem.
struct Kept<'a>(HashMap<Key<'a>, (&'a Problem, Method)>);

impl<'a> Kept<'a> {
    fn of(datasets: &'a [Dataset]) -> Self {
        let mut kept: HashMap<Key<'a>, (&Problem, Method)> = HashMap::new();
        for dataset in datasets {
            for solution in &dataset.solutions {
                let (problem, key) = (&solution.problem, plain(&solution.problem));
                let better = |first: &Problem| *problem == key && *first != key;
                let this = (problem, solution.method);
                let entry = kept.entry((&dataset.hardware.name, key.clone())).or_insert(this);
                if better(entry.0) {
                    *entry = this;
                }
            }
        }
        Self(kept)
    }
}

#[derive(Default)]
struct LeftOut {
    layouts: HashSet<(String, Problem)>,
    methods: usize,
    variants: usize,
}

impl LeftOut {
    fn sentences(&self) -> Vec<String> {
        let (problems, measurements, timings) = (self.layouts.len(), self.methods, self.variants);
        let s = |count: usize| if count == 1 { "" } else { "s" };
        let mut sentences = Vec::new();
        if problems > 0 {
            sentences.push(format!(
                "{problems} problem{} left out, because only their layout or bias differs from another's, whose timings are kept",
                s(problems)
            ));
        }
        if measurements > 0 {
            sentences.push(format!(
                "{measurements} measurement{} left out, because their problem was measured in another way too, and those timings are kept",
                s(measurements)
            ));
        }
        if timings > 0 {
            sentences.push(format!(
                "{timings} timing{} left out, because only ROCm's parameters differ from those of a faster config",
                s(timings)
            ));
        }
        sentences
    }
}

fn reduce_dataset(dataset: &Dataset, kept: &Kept<'_>, left_out: &mut LeftOut) -> Dataset {
    let mut reduced = Dataset {
        hardware: dataset.hardware.clone(),
        provenance: dataset.provenance.clone(),
        configs: ConfigDictionary::default(),
        solutions: Vec::new(),
    };
    for solution in &dataset.solutions {
        let key = plain(&solution.problem);
        let (problem, method) = kept.0[&(dataset.hardware.name.as_str(), key.clone())];
        if solution.problem != *problem {
            left_out.layouts.insert((dataset.hardware.name.clone(), solution.problem.clone()));
        } else if solution.method != method {
            left_out.methods += 1;
        } else {
            let solution = reduce_solution(solution, key, dataset, &mut reduced.configs, left_out);
            reduced.solutions.push(solution);
        }
    }
    reduced
}

fn reduce_solution(
    solution: &Solution,
    problem: Problem,
    dataset: &Dataset,
    configs: &mut ConfigDictionary,
    left_out: &mut LeftOut,
) -> Solution {
    let mut held = |index: ConfigIndex| {
        let config = dataset.configs.get(index);
        let tile = config.tile().filter(|tile| config_for(problem.op, **tile) == *config)?;
        Some(configs.intern(config_for(problem.op, Tile { rocm: None, ..*tile })))
    };
    let rows: Vec<Option<ConfigIndex>> = solution.configs.iter().map(|&index| held(index)).collect();
    let failed: Vec<Option<ConfigIndex>> =
        solution.failures.iter().map(|failure| held(failure.config)).collect();

    // Of configs that become one, the fastest is kept, or the first if none has a time.
    let mut by_time: Vec<usize> = (0..rows.len()).collect();
    by_time.sort_by(|&a, &b| solution.times.millis(a).0.total_cmp(&solution.times.millis(b).0));
    let timed = by_time.into_iter().map(|row| (rows[row], solution.configs[row]));
    let untimed = failed.iter().copied().zip(solution.failures.iter().map(|failure| failure.config));
    let mut stands_for: HashMap<ConfigIndex, ConfigIndex> = HashMap::new();
    for (held, config) in timed.chain(untimed) {
        if let Some(held) = held {
            stands_for.entry(held).or_insert(config);
        }
    }
    let mut stands = |held: Option<ConfigIndex>, config: ConfigIndex| {
        let held = held?;
        let stands = stands_for[&held] == config;
        left_out.variants += usize::from(!stands);
        stands.then_some(held)
    };

    let kept: Vec<(usize, ConfigIndex)> = rows
        .iter()
        .enumerate()
        .filter_map(|(row, &held)| Some((row, stands(held, solution.configs[row])?)))
        .collect();
    let failures = failed.iter().zip(&solution.failures).filter_map(|(&held, failure)| {
        stands(held, failure.config).map(|config| Failure { config, reason: FailureReason::NotFinite })
    });
    Solution {
        problem,
        method: Method::Unspecified,
        failures: failures.collect(),
        times: picked(&solution.times, kept.iter().map(|&(row, _)| row)),
        configs: kept.into_iter().map(|(_, config)| config).collect(),
        minimum_ns: None,
        spread_ns: None,
        repeats: None,
    }
}

fn picked(times: &TimeColumn, rows: impl Iterator<Item = usize>) -> TimeColumn {
    match times {
        TimeColumn::Nanos(nanos) => TimeColumn::Nanos(rows.map(|row| nanos[row]).collect()),
        TimeColumn::Millis(millis) => TimeColumn::Millis(rows.map(|row| millis[row]).collect()),
    }
}

/// The losses, with the number of problems that each concerns.
pub(crate) fn losses(datasets: &[Dataset]) -> BTreeMap<&'static str, usize> {
    let mut problems_by_loss: BTreeMap<&'static str, usize> = BTreeMap::new();
    for dataset in datasets {
        for solution in &dataset.solutions {
            for loss in losses_of(dataset, solution) {
                *problems_by_loss.entry(loss).or_default() += 1;
            }
        }
    }
    problems_by_loss
}

fn losses_of(dataset: &Dataset, solution: &Solution) -> impl Iterator<Item = &'static str> {
    let used =
        || solution.configs.iter().copied().chain(solution.failures.iter().map(|failure| failure.config));
    let config = |index: ConfigIndex| dataset.configs.get(index);
    let op = solution.problem.op;
    let named = Hardware::from_name(&dataset.hardware.name);
    [
        (
            "hardware whose name leads to another slug",
            named.is_ok_and(|named| named.slug != dataset.hardware.slug),
        ),
        ("column-major inputs", !shape::holds_layouts(&solution.problem)),
        ("a vector bias", solution.problem.bias == Bias::Vector),
        ("how times were measured", solution.method != Method::Unspecified),
        ("the shortest of repeats", solution.minimum_ns.is_some()),
        ("the spread of repeats", solution.spread_ns.is_some()),
        ("the number of repeats", solution.repeats.is_some()),
        (
            "reasons of failures",
            solution.failures.iter().any(|failure| failure.reason != FailureReason::NotFinite),
        ),
        ("library timings", used().any(|index| config(index).is_library())),
        ("split-K configs", used().any(|index| matches!(config(index), Config::DecomposeK { .. }))),
        (
            "configs of another template than the op's own",
            used().any(|index| {
                config(index).tile().is_some_and(|tile| config_for(op, *tile) != *config(index))
            }),
        ),
        (
            "ROCm's parameters",
            used().any(|index| config(index).tile().is_some_and(|tile| tile.rocm.is_some())),
        ),
    ]
    .into_iter()
    .filter_map(|(loss, applies)| applies.then_some(loss))
}
