//! Choices without a model. They are judged by the same measured times as models.

use std::collections::{BTreeMap, HashMap};

use diode_api::TopK;
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, Invalid, Problem, Table, Tile};
use serde::Serialize;

use super::judged::Judged;
use crate::TrainingSet;
use crate::evaluation::top_k;

/// How many of the configs that the nearest problems advise are timed by the baseline `nearest_5`.
const ADVISED: usize = 5;

/// One way to choose without a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Baseline {
    /// A description for people.
    pub what: String,
    /// The most configs that it times per problem, without the library.
    pub timed: usize,
    /// The number of problems on which it can be judged.
    pub problems: usize,
    /// Its shares of the best Triton config; `None` for the library alone.
    pub triton: Option<TopK>,
    /// Its shares of the best of everything, if it times the library, too. They are over problems where
    /// the library was measured.
    pub with_library: Option<TopK>,
}

/// Baselines by their short names.
pub type Baselines = BTreeMap<&'static str, Baseline>;

/// All baselines that the data can judge. The baselines of nearest problems need `others`. Without
/// `others`, the best fixed config is chosen with hindsight, from the judged problems themselves.
pub(super) fn baselines(
    judged: &[Judged],
    set: &TrainingSet,
    others: Option<&OtherProblems>,
) -> Result<Baselines, Invalid> {
    let measured: Vec<MeasuredTimes<'_>> = judged.iter().map(MeasuredTimes::of).collect();
    let mut baselines = Baselines::new();
    baselines.insert("exhaustive", exhaustive(&measured));

    let defaults = Space::Named(SpaceName::Default);
    let mut picks = Vec::new();
    for m in &measured {
        picks.push(defaults.configs(set.hardware(), &m.judged.problem)?);
    }
    let count = picks.iter().map(Vec::len).max().unwrap_or(0);
    let times = measured.iter().zip(&picks).map(|(m, configs)| m.best_of(configs));
    baselines.insert("defaults", baseline("Inductor's default configs, all timed", &measured, times, count));

    let fixed = match others {
        Some(others) => others.best_fixed.map(|key| (key, "of the training data")),
        None => best_fixed(&measured).map(|key| (key, "with hindsight")),
    };
    if let Some((key, where_from)) = fixed {
        let what = format!("the best fixed config {where_from}: {}", key.label());
        let times = measured.iter().map(|m| m.times.get(&key).copied());
        baselines.insert("best_fixed", baseline(&what, &measured, times, 0));
    }
    if let Some(OtherProblems { table, .. }) = others {
        let advice: Vec<Vec<Config>> = measured.iter().map(|m| advised(table, &m.judged.problem)).collect();
        let nearest = "the nearest problems of the training data advise";
        for (name, count, words) in
            [("nearest", 1, "the config"), ("nearest_5", ADVISED, "the best of 5 configs")]
        {
            let what = format!("{words} that {nearest}");
            let times =
                measured.iter().zip(&advice).map(|(m, advice)| m.best_of(&advice[..count.min(advice.len())]));
            baselines.insert(name, baseline(&what, &measured, times, if count == 1 { 0 } else { count }));
        }
    }
    if measured.iter().any(|m| m.judged.library_us.is_some()) {
        baselines.insert("library", library_alone(&measured));
    }
    Ok(baselines)
}

/// Other problems of the same hardware, and the config that is the best for them on average.
pub(super) struct OtherProblems {
    table: Table,
    best_fixed: Option<Key>,
}

impl OtherProblems {
    pub(super) fn new(table: Table) -> Self {
        let mut votes = Votes::default();
        for (_, configs) in table.iter() {
            let times = configs.iter().filter_map(|c| Some((Key::of(&c.config)?, c.time?.0)));
            votes.add(times.collect());
        }
        Self { best_fixed: votes.winner(), table }
    }
}

/// The Triton configs that a table advises.
fn advised(table: &Table, problem: &Problem) -> Vec<Config> {
    let nearest = table.nearest(problem, usize::MAX);
    let candidates = nearest.into_iter().flat_map(|nearest| nearest.candidates);
    candidates.map(|candidate| candidate.config).filter(|config| Key::of(config).is_some()).collect()
}

/// The measured times of a problem, by the chosen part ([`Key`]) of each config.
struct MeasuredTimes<'a> {
    judged: &'a Judged,
    times: HashMap<Key, f64>,
}

impl<'a> MeasuredTimes<'a> {
    fn of(judged: &'a Judged) -> Self {
        let times = judged.rows.iter().filter_map(|row| Some((Key::of(&row.config)?, row.measured_us)));
        Self { judged, times: times.collect() }
    }

    /// The shortest time of these configs. `None` if none was measured.
    fn best_of(&self, configs: &[Config]) -> Option<f64> {
        let times = configs.iter().filter_map(|config| self.times.get(&Key::of(config)?));
        times.copied().min_by(f64::total_cmp)
    }
}

/// The part of a config that is a choice. The rest follows from the problem, or is the same for all
/// configs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key([u32; 6]);

impl Key {
    fn of(config: &Config) -> Option<Self> {
        let (Config::Mm(tile) | Config::Bmm(tile)) = config else { return None };
        let &Tile { block_m, block_n, block_k, group_m, num_stages, num_warps, .. } = tile;
        Some(Self([block_m, block_n, block_k, group_m, num_stages, num_warps]))
    }

    fn label(self) -> String {
        let [block_m, block_n, block_k, _, stages, warps] = self.0;
        Config::Mm(Tile::new(block_m, block_n, block_k, stages, warps)).label()
    }
}

/// Finds the config that is the best on average over problems.
#[derive(Default)]
struct Votes(HashMap<Key, (usize, f64)>);

impl Votes {
    fn add(&mut self, times: Vec<(Key, f64)>) {
        let best = times.iter().map(|&(_, us)| us).fold(f64::INFINITY, f64::min);
        for (key, us) in times {
            let (count, sum) = self.0.entry(key).or_default();
            *count += 1;
            *sum += (best / us).ln();
        }
    }

    /// The winner among the configs that were timed on the most problems.
    fn winner(self) -> Option<Key> {
        let most = self.0.values().map(|&(count, _)| count).max()?;
        let full = self.0.into_iter().filter(|(_, (count, _))| *count == most);
        full.max_by(|(a, (_, x)), (b, (_, y))| x.total_cmp(y).then_with(|| b.cmp(a))).map(|(key, _)| key)
    }
}

fn best_fixed(measured: &[MeasuredTimes<'_>]) -> Option<Key> {
    let mut votes = Votes::default();
    for m in measured {
        votes.add(m.times.iter().map(|(&key, &us)| (key, us)).collect());
    }
    votes.winner()
}

/// Sums up the times that a choice reaches. A time is `None` if the choice cannot be judged on a problem.
fn baseline(
    what: &str,
    measured: &[MeasuredTimes<'_>],
    times: impl Iterator<Item = Option<f64>>,
    timed: usize,
) -> Baseline {
    let (mut triton, mut with_library) = (Vec::new(), Vec::new());
    for (m, us) in measured.iter().zip(times) {
        let Some(us) = us else { continue };
        let best = m.judged.best().measured_us;
        triton.push(best / us);
        if let Some(library) = m.judged.library_us {
            with_library.push(best.min(library) / us.min(library));
        }
    }
    let sum = |shares: &[f64]| (!shares.is_empty()).then(|| top_k(shares.iter().copied()));
    Baseline {
        what: what.to_owned(),
        timed,
        problems: triton.len(),
        triton: sum(&triton),
        with_library: sum(&with_library),
    }
}

/// The baseline that times every Triton config, but not the library.
fn exhaustive(measured: &[MeasuredTimes<'_>]) -> Baseline {
    let with_library = measured.iter().filter_map(|m| {
        let (best, library) = (m.judged.best().measured_us, m.judged.library_us?);
        Some(best.min(library) / best)
    });
    let with_library: Vec<f64> = with_library.collect();
    Baseline {
        what: "every Triton config timed, without the library".to_owned(),
        timed: measured.iter().map(|m| m.judged.rows.len()).max().unwrap_or(0),
        problems: measured.len(),
        triton: Some(top_k(measured.iter().map(|_| 1.0))),
        with_library: (!with_library.is_empty()).then(|| top_k(with_library.iter().copied())),
    }
}

fn library_alone(measured: &[MeasuredTimes<'_>]) -> Baseline {
    let shares: Vec<f64> = measured
        .iter()
        .filter_map(|m| {
            let library = m.judged.library_us?;
            Some(m.judged.best().measured_us.min(library) / library)
        })
        .collect();
    Baseline {
        what: "the library kernel, always".to_owned(),
        timed: 0,
        problems: shares.len(),
        triton: None,
        with_library: Some(top_k(shares.iter().copied())),
    }
}
