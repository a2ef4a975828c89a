//! Training and judging the part of a model for scaled, grouped and experts problems.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use diode_core::baselines::Baseline;
use diode_core::hardware::Hardware;
use diode_core::ids::Digest;
use diode_core::problem::are_one_layer;
use diode_core::stats::median;
use diode_core::{Config, Dataset, Method, Op, Problem, Provenance, Solution, hash_of_size};
use diode_model::{ModelError, Network, RankedSpace, Serving, ServingAbout, ServingFigures, ServingKind};
use diode_numeric::serving::{SERVING_FEATURES, ServingFeatures};

use crate::learner::learn;
use crate::library;
use crate::prepared::{Normalisation, TrainingRows};
use crate::side_by_side::side_by_side;
use crate::{TrainError, TrainOptions};

/// As many networks are trained. Each leaves out a part of the sizes, on which what runs untuned is then compared.
const NETWORKS: usize = 4;

/// This part is not learnt from fewer problems.
pub const LEAST_SERVED: usize = 50;

/// The scaled, grouped and experts problems of datasets that were timed in one way, as far as they are wanted.
pub fn served(datasets: &[Dataset], method: Method, is_wanted: impl Fn(&Problem) -> bool) -> Vec<Dataset> {
    let of = |set: &Dataset| {
        let suits =
            |one: &&Solution| !one.problem.op.is_plain() && one.method == method && is_wanted(&one.problem);
        Dataset {
            hardware: set.hardware.clone(),
            provenance: Provenance::default(),
            configs: set.configs.clone(),
            solutions: set.solutions.iter().filter(suits).cloned().collect(),
        }
    };
    datasets.iter().map(of).filter(|set| !set.solutions.is_empty()).collect()
}

/// The settings of a training of this part.
pub fn serving_options() -> TrainOptions {
    TrainOptions {
        epochs: Some(140),
        hidden: vec![96, 48],
        learning_rate: 4e-3,
        weight_decay: 0.01,
        tile_values: Some(0),
        problems_per_step: Some(32),
        configs_per_problem: 64,
        fastest_per_problem: 16,
        ..TrainOptions::default()
    }
}

/// What was measured on one problem.
#[derive(Debug, Clone)]
pub struct ServingProblem {
    pub problem: Problem,
    /// Starts with the fastest.
    pub timed: Vec<(Config, f64)>,
    pub library_us: Option<f64>,
}

/// The scaled, grouped and experts problems of datasets.
pub fn serving_problems(datasets: &[Dataset]) -> Vec<ServingProblem> {
    let solutions = datasets.iter().flat_map(|set| set.solutions.iter().map(move |one| (set, one)));
    let mut problems: Vec<ServingProblem> = solutions
        .filter(|(_, solution)| !solution.problem.op.is_plain())
        .map(|(set, solution)| {
            let times = solution.times.iter_nanos().map(|time| time.0 / 1e3);
            let all = solution.configs.iter().map(|&index| *set.configs.get(index)).zip(times);
            let (library, mut timed): (Vec<_>, Vec<_>) = all.partition(|(config, _)| config.is_library());
            timed.sort_by(|a, b| a.1.total_cmp(&b.1));
            let library_us = library.first().map(|(_, us)| *us);
            ServingProblem { problem: solution.problem.clone(), timed, library_us }
        })
        .filter(|one| !one.timed.is_empty())
        .collect();
    problems.sort_by(|a, b| a.problem.cmp(&b.problem));
    problems
}

/// Trains this part on datasets of one hardware. [Stops](TrainError::Stopped) if `tell` breaks off before each network is begun.
pub fn train_serving(
    datasets: &[Dataset],
    options: &TrainOptions,
    tell: &mut dyn FnMut(usize, usize, f32) -> ControlFlow<()>,
) -> Result<Serving, TrainError> {
    let empty = || TrainError::Empty { left_out: crate::LeftOut::default() };
    let hardware = &datasets.first().ok_or_else(empty)?.hardware;
    let facts = hardware.facts.ok_or_else(|| TrainError::NoFacts { hardware: hardware.slug.clone() })?;
    let problems: Vec<(ServingFeatures, ServingProblem)> = serving_problems(datasets)
        .into_iter()
        .filter_map(|one| Some((ServingFeatures::new(&facts, &one.problem)?, one)))
        .collect();
    let mut rows: Vec<TrainingRows> = problems.iter().map(|(features, one)| raw(features, one)).collect();
    let normalisation = Normalisation::of(&rows);
    if rows.is_empty() {
        return Err(empty());
    }
    for one in &mut rows {
        normalisation.apply(&mut one.inputs);
    }
    let fold = |one: &ServingProblem| (hash_of_size(&one.problem) % NETWORKS as u64) as usize;
    let jobs = (0..NETWORKS).map(|left_out| {
        let kept: Vec<&TrainingRows> = rows
            .iter()
            .zip(&problems)
            .filter(|(_, (_, one))| fold(one) != left_out)
            .map(|(rows, _)| rows)
            .collect();
        let normalisation = &normalisation;
        let options = TrainOptions { seed: options.seed.wrapping_add(left_out as u64), ..options.clone() };
        move |observe: crate::Observer<'_>| -> Result<Network, TrainError> {
            let mlp = learn(&kept, &normalisation.idle, 0, &options, |epoch, epochs, loss| {
                let phase = format!("network {} of {NETWORKS}", left_out + 1);
                observe(&crate::Progress::Epoch { phase, phases: NETWORKS, epoch, epochs, loss })
            })?
            .mlp;
            let Normalisation { mean, std, .. } = normalisation.clone();
            let network = Network::new(mean, std, mlp.layers()?).and_then(Network::rounded_to_half);
            Ok(network.map_err(ModelError::from)?)
        }
    });
    let mut observe = |progress: &crate::Progress| match progress {
        crate::Progress::Epoch { epoch, epochs, loss, .. } => tell(*epoch, *epochs, *loss),
        _ => ControlFlow::Continue(()),
    };
    let networks: Vec<Network> =
        side_by_side(jobs.collect(), &mut observe).into_iter().collect::<Result<_, _>>()?;
    if networks.len() < NETWORKS {
        return Err(TrainError::Stopped);
    }
    let picks: Vec<Pick> =
        problems.iter().map(|(features, one)| Pick::new(&networks[fold(one)], features, one)).collect();
    let mut ratios: Vec<f64> = picks.iter().map(|pick| pick.us / pick.predicted_us).collect();
    let bias = median(&mut ratios).unwrap_or(1.0);
    let library = library(&problems, &picks, bias, options.seed)?;
    let kinds: BTreeSet<ServingKind> =
        problems.iter().map(|(_, one)| ServingKind::of(&one.problem)).collect();
    let handicap = default_handicap(hardware, &problems, |one| networks[fold(one)].clone());
    let about = ServingAbout {
        feature_set: SERVING_FEATURES.to_owned(),
        stands_in_from: None,
        data_digest: digest(&problems),
        problems: problems.len() as u64,
        timings: problems.iter().map(|(_, one)| one.timed.len() as u64).sum(),
        kinds: kinds.into_iter().collect(),
        pick_bias: bias,
        default_handicap: handicap,
        judged: Vec::new(),
    };
    Ok(Serving::new(about, networks, library)?)
}

/// The settings of the networks for what runs untuned.
const LIBRARY: library::Effort = library::Effort { hidden: 32, steps: 1500 };

/// The columns of a problem's configs, not scaled yet.
fn raw(features: &ServingFeatures, one: &ServingProblem) -> TrainingRows {
    let rows = one.timed.iter().filter_map(|(config, us)| Some((features.row(config)?, *us)));
    let (columns, times): (Vec<_>, Vec<f64>) = rows.unzip();
    TrainingRows {
        inputs: columns.concat(),
        ln_base: vec![features.base_us().ln(); times.len()],
        ln_us: times.iter().map(|us| us.ln() as f32).collect(),
        tiles: Vec::new(),
        times_count: true,
    }
}

/// The first pick by a network that was not trained on the problem.
struct Pick {
    predicted_us: f64,
    us: f64,
}

impl Pick {
    fn new(network: &Network, features: &ServingFeatures, one: &ServingProblem) -> Self {
        let configs: Vec<Config> = one.timed.iter().map(|(config, _)| *config).collect();
        let predicted = features.predict(std::slice::from_ref(network), &configs);
        let times = predicted.into_iter().map(|time| time.unwrap_or(f64::INFINITY)).zip(&one.timed);
        let best = times.min_by(|a, b| a.0.total_cmp(&b.0));
        let (predicted_us, us) = best.map_or((1.0, 1.0), |(predicted, (_, us))| (predicted, *us));
        Self { predicted_us, us }
    }
}

/// The network for what runs untuned. Its target is the time / the pick's measured time, as for the library of other
/// problems.
fn library(
    problems: &[(ServingFeatures, ServingProblem)],
    picks: &[Pick],
    bias: f64,
    seed: u64,
) -> Result<Option<Network>, TrainError> {
    let known = problems.iter().zip(picks).filter_map(|((features, one), pick)| {
        let target = (one.library_us? / pick.us * bias).ln() as f32;
        Some((features.library_row(pick.predicted_us), target))
    });
    let (rows, targets): (Vec<_>, Vec<f32>) = known.unzip();
    if rows.is_empty() {
        return Ok(None);
    }
    let network = library::learn(&rows, &targets, LIBRARY, seed)?.rounded_to_half();
    Ok(Some(network.map_err(ModelError::from)?))
}

fn digest(problems: &[(ServingFeatures, ServingProblem)]) -> Digest {
    let mut text = String::new();
    for (_, one) in problems {
        text += &format!("{} {:?}\n", one.problem.canonical(), one.library_us);
        for (config, us) in &one.timed {
            text += &format!("{} {us}\n", config.canonical());
        }
    }
    Digest::of(text.as_bytes())
}

/// A problem, or both launches of a layer of experts, with what was measured.
#[derive(Debug)]
pub struct JudgedServing {
    pub problem: Problem,
    /// The best of everything, in µs.
    pub best: f64,
    /// The measured and the predicted time of the first pick.
    pub first: f64,
    pub predicted: f64,
    /// The best of the first five picks.
    pub five: f64,
    /// For rising numbers of picks, the best of them.
    pub of_picks: Vec<(u32, f64)>,
    /// The library's time, or that of vLLM's default.
    pub untuned: Option<f64>,
    /// The tiles that were timed, for all launches together.
    pub timed: Vec<(Config, f64)>,
}

const JUDGED_PICKS: [usize; 4] = [1, 3, 5, 8];

/// Judges picks among what was timed. Both stages of a layer of experts get one config.
pub fn judge_serving(serving: &Serving, datasets: &[Dataset]) -> Result<Vec<JudgedServing>, TrainError> {
    let Some(hardware) = datasets.first().map(|set| &set.hardware) else { return Ok(Vec::new()) };
    let facts = hardware.facts.ok_or_else(|| TrainError::NoFacts { hardware: hardware.slug.clone() })?;
    let problems = serving_problems(datasets);
    let mut judged = Vec::new();
    for stages in layers(&problems) {
        let features: Option<Vec<ServingFeatures>> =
            stages.iter().map(|one| ServingFeatures::new(&facts, &one.problem)).collect();
        let Some(features) = features else { continue };
        let sums = sums(&stages);
        let Some(fastest) = sums.iter().map(|(_, us)| *us).min_by(f64::total_cmp) else { continue };
        let problem = stages[0].problem.clone();
        let mut ranked = serving.times(&features, sums.iter().map(|(config, _)| *config).collect())?;
        ranked.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let bias = serving.about.pick_bias;
        let library = serving.library().filter(|_| stages[0].library_us.is_some());
        let library =
            library.map(|network| diode_core::Micros(features[0].library_us(network, ranked[0].1.0)));
        ranked.iter_mut().for_each(|(_, time)| time.0 *= bias);
        let default = vllm_default(hardware, &problem, &ranked);
        let of = |config: &Config| {
            let tile = sums.iter().find(|(one, _)| one == config).map(|(_, us)| *us);
            if config.is_library() { stages[0].library_us } else { tile }.unwrap_or(f64::INFINITY)
        };
        let space = RankedSpace::new(ranked, library, 1.0);
        let keeps =
            default.filter(|(_, time)| space.configs[0].1.0 >= time.0 * serving.about.default_handicap);
        let picks = |count: usize| {
            let mut picks = space.picks(count);
            if let Some(kept) = keeps {
                diode_model::put_first(&mut picks, kept);
            }
            picks
        };
        let one = picks(1)[0];
        let best_of = |count| picks(count).iter().map(|(config, _)| of(config)).fold(f64::INFINITY, f64::min);
        judged.push(JudgedServing {
            best: stages[0].library_us.map_or(fastest, |us| us.min(fastest)),
            first: of(&one.0),
            predicted: one.1.0,
            five: best_of(5),
            of_picks: JUDGED_PICKS.map(|count| (count as u32, best_of(count))).to_vec(),
            untuned: stages[0].library_us.or_else(|| default.map(|(config, _)| of(&config))),
            timed: sums,
            problem,
        });
    }
    Ok(judged)
}

/// Each problem alone, or both launches of a layer of experts. A launch without the other is left out.
fn layers(problems: &[ServingProblem]) -> Vec<Vec<&ServingProblem>> {
    let mut layers: Vec<Vec<&ServingProblem>> = Vec::new();
    for one in problems {
        match layers
            .iter_mut()
            .find(|stages| stages.len() == 1 && are_one_layer(&stages[0].problem, &one.problem))
        {
            Some(stages) => stages.push(one),
            None => layers.push(vec![one]),
        }
    }
    layers.retain(|stages| stages[0].problem.op != Op::FusedMoe || stages.len() == 2);
    layers
}

/// The configs that were timed in all launches of a layer, with the sums of their times.
fn sums(stages: &[&ServingProblem]) -> Vec<(Config, f64)> {
    let of = |stage: &ServingProblem, config: &Config| {
        stage.timed.iter().find(|(one, _)| one.for_k(1) == config.for_k(1)).map(|(_, us)| *us)
    };
    let configs = stages[0].timed.iter().map(|(config, _)| *config);
    configs
        .filter_map(|config| {
            Some((config, stages.iter().map(|stage| of(stage, &config)).sum::<Option<f64>>()?))
        })
        .collect()
}

/// What vLLM runs without a file, with its number among a layer's configs.
fn vllm_default<T: Copy>(
    hardware: &Hardware,
    problem: &Problem,
    known: &[(Config, T)],
) -> Option<(Config, T)> {
    let default = Baseline::VllmDefault.config(hardware, problem).filter(|_| problem.op == Op::FusedMoe)?;
    known.iter().find(|(one, _)| one.for_k(1) == default.for_k(1)).copied()
}

/// A layer of experts is slower than with vLLM's default if it takes this many times as long.
const SLOWER: f64 = 1.0 / 0.985;
/// At most this share of layers may become slower by a file.
const SLOWER_SHARE: f64 = 0.005;

/// The largest factor for the default's predicted time with which hardly any layer becomes slower. Each launch is
/// predicted by the network that was not trained on its sizes.
fn default_handicap(
    hardware: &Hardware,
    problems: &[(ServingFeatures, ServingProblem)],
    network: impl Fn(&ServingProblem) -> Network,
) -> f64 {
    let known: Vec<ServingProblem> = problems.iter().map(|(_, one)| one.clone()).collect();
    let features = |of: &ServingProblem| problems.iter().find(|(_, one)| one.problem == of.problem);
    let mut ratios = Vec::new();
    for stages in layers(&known).iter().filter(|stages| stages.len() == 2) {
        let sums = sums(stages);
        let configs: Vec<Config> = sums.iter().map(|(config, _)| *config).collect();
        let mut predicted = vec![0.0; configs.len()];
        for stage in stages {
            let Some((features, _)) = features(stage) else { continue };
            let times = features.predict(&[network(stage)], &configs);
            predicted.iter_mut().zip(times).for_each(|(sum, us)| *sum += us.unwrap_or(f64::INFINITY));
        }
        let both: Vec<(Config, (f64, f64))> = sums
            .into_iter()
            .zip(predicted)
            .map(|((config, us), predicted)| (config, (predicted, us)))
            .collect();
        let pick = both.iter().min_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let default = vllm_default(hardware, &stages[0].problem, &both);
        ratios.extend(
            pick.zip(default).map(|((_, pick), (_, default))| (pick.0 / default.0, pick.1 / default.1)),
        );
    }
    let is_safe = |factor: f64| {
        let slower = ratios.iter().filter(|(predicted, measured)| *predicted < factor && *measured > SLOWER);
        slower.count() as f64 <= SLOWER_SHARE * ratios.len() as f64
    };
    (0..20).map(|step| 1.0 - 0.005 * f64::from(step)).find(|&factor| is_safe(factor)).unwrap_or(0.9)
}

/// The figures of each kind.
pub fn serving_figures(judged: &[JudgedServing]) -> Vec<ServingFigures> {
    let kinds: BTreeSet<ServingKind> = judged.iter().map(|one| ServingKind::of(&one.problem)).collect();
    kinds
        .into_iter()
        .map(|kind| {
            let of: Vec<&JudgedServing> =
                judged.iter().filter(|one| ServingKind::of(&one.problem) == kind).collect();
            let shares = |us: fn(&JudgedServing) -> f64| of.iter().map(move |one| one.best / us(one));
            let within = JUDGED_PICKS.iter().enumerate().map(|(at, &count)| {
                let near = of.iter().filter(|one| one.of_picks[at].1 <= 1.05 * one.best).count();
                (count as u32, near as f64 / of.len() as f64)
            });
            let mut ratios: Vec<f64> = of.iter().map(|one| one.first / one.predicted).collect();
            ratios.sort_by(f64::total_cmp);
            let at = |share: f64| ratios[((ratios.len() - 1) as f64 * share).round() as usize];
            ServingFigures {
                kind,
                problems: of.len() as u64,
                first: (geomean(shares(|one| one.first)), shares(|one| one.first).fold(1.0, f64::min)),
                five: geomean(shares(|one| one.five)),
                within_5_percent: within.collect(),
                time_range: (at(0.1), at(0.9)),
            }
        })
        .collect()
}

/// The geometric mean.
pub fn geomean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value.ln(), count + 1.0));
    (sum / f64::max(count, 1.0)).exp()
}
