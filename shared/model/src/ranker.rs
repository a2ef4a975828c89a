//! Ranks spaces for one problem after the other.

use std::ops::Deref;

use diode_core::hardware::floor;
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, DType, Layout, Method, Micros, Op, Problem, Tile};
use diode_numeric::{Predicted, fastest_first};

use crate::features::{Loading, ProblemFeatures, featured_tile};
use crate::tile_network::PreparedConfigs;
use crate::tile_network::tile_key;
use crate::{Limits, Model, ModelError};

/// The most picks for which a shortlist suffices. More picks need the whole space.
pub const MOST_PICKS: usize = 16;

/// Ranks a whole space for one problem. Use a [`Ranker`] for many problems.
pub fn rank(model: &Model, problem: &Problem, space: &Space) -> Result<RankedSpace, ModelError> {
    Ranker::new(model).rank(problem, space)
}

/// Ranks spaces with a model, which is borrowed or shared. While the space, the operator and the input types stay the same,
/// what depends on configs alone is computed only once.
#[derive(Debug, Clone)]
pub struct Ranker<M> {
    model: M,
    last: Option<PreparedSpace>,
}

/// The space that was ranked last.
#[derive(Debug, Clone)]
struct PreparedSpace {
    /// The space's name; `None` for a list.
    named: Option<SpaceName>,
    kind: (Op, [DType; 2], [Layout; 2], Loading),
    limits: Option<Limits>,
    /// Sorted by config. This order decides between equal predicted times.
    configs: Vec<Config>,
    prepared: PreparedConfigs,
}

impl<M: Deref<Target = Model>> Ranker<M> {
    pub fn new(model: M) -> Self {
        Self { model, last: None }
    }

    /// Every config of a space, with the best first. Configs with equal predicted times stay in config order,
    /// so the ranking does not depend on the order of the space.
    ///
    /// The library is not ranked with the configs of a list. Its time is returned apart.
    pub fn rank(&mut self, problem: &Problem, space: &Space) -> Result<RankedSpace, ModelError> {
        self.ranked(problem, space, None, false)
    }

    /// Ranks a part of the configs, among which the best [`MOST_PICKS`] are. This is enough for picks.
    pub fn shortlist(&mut self, problem: &Problem, space: &Space) -> Result<RankedSpace, ModelError> {
        self.ranked(problem, space, None, true)
    }

    /// Ranks the configs within the limits, or a part of them, among which the best [`MOST_PICKS`] are.
    pub(crate) fn ranked(
        &mut self,
        problem: &Problem,
        space: &Space,
        limits: Option<Limits>,
        is_shortlist: bool,
    ) -> Result<RankedSpace, ModelError> {
        let features = self.model.features(problem)?;
        let last = self.last.take();
        let prepared = PreparedSpace::new(&self.model, &features, problem, space, limits, last)?;
        self.last.insert(prepared).ranked(&self.model, &features, problem, is_shortlist)
    }

    /// The model that ranks.
    pub fn model(&self) -> &Model {
        &self.model
    }
}

/// Keeps the first of several configs that differ in their stages alone. This is for problems of which every
/// element is loaded by itself: there such configs have one kernel.
///
/// The configs are sorted, so those with one kernel are close together.
fn keep_one_of_each_kernel(configs: &mut Vec<Config>) {
    /// How many of the latest kernels are searched. Tiles of one size have fewer.
    const NEAR: usize = 64;
    let kernel = |config: &Config| config.tile().map(|tile| tile_key(tile, Loading::BY_THE_ELEMENT));
    let mut kept = 0_usize;
    for at in 0..configs.len() {
        let this = kernel(&configs[at]);
        let near = &configs[kept.saturating_sub(NEAR)..kept];
        if this.is_none() || !near.iter().any(|known| kernel(known) == this) {
            configs[kept] = configs[at];
            kept += 1;
        }
    }
    configs.truncate(kept);
}

impl PreparedSpace {
    /// Prepares the space for problems like `problem`. If `last` is the same space, returns `last`.
    fn new(
        model: &Model,
        features: &ProblemFeatures,
        problem: &Problem,
        space: &Space,
        limits: Option<Limits>,
        last: Option<Self>,
    ) -> Result<Self, ModelError> {
        let hardware = &model.metadata().hardware;
        let loading = features.loading();
        let dtypes = [problem.a_dtype, problem.b_dtype];
        let kind = (problem.op, dtypes, [problem.a_layout, problem.b_layout], loading);
        let named = match space {
            Space::Named(name) => Some(*name),
            Space::List(_) => None,
        };
        let is_like =
            |last: &Self| last.kind == kind && last.limits == limits && !space.follows_sizes(hardware);
        let last = last.filter(is_like);
        let last = match last {
            Some(last) if named.is_some() && last.named == named => return Ok(last),
            last => last,
        };
        let mut configs = space.configs(hardware, problem)?;
        configs.sort_unstable();
        configs.retain(|config| !config.is_library() || !model.knows_library(config.rounds_to_tf32()));
        if let Some(limits) = limits {
            configs.retain(|config| limits.obstacle(config).is_none());
        }
        match named {
            Some(_) if loading == Loading::BY_THE_ELEMENT => keep_one_of_each_kernel(&mut configs),
            Some(_) => (),
            None => configs.iter().try_for_each(Config::validate)?,
        }
        let tiles = configs.iter().map(featured_tile).collect::<Result<Vec<_>, _>>()?;
        // The measured configs of two problems often differ in `EVEN_K` alone. This flag changes no predicted
        // time.
        let alike = |last: &Self| {
            let same = |(a, b): (&Config, &Config)| a.for_k(1) == b.for_k(1);
            last.configs.len() == configs.len() && last.configs.iter().zip(&configs).all(same)
        };
        if let Some(last) = last.filter(alike) {
            return Ok(Self { named, configs, ..last });
        }
        let prepared = PreparedConfigs::new(model, features, &tiles);
        Ok(Self { named, kind, limits, configs, prepared })
    }

    fn ranked(
        &mut self,
        model: &Model,
        features: &ProblemFeatures,
        problem: &Problem,
        is_shortlist: bool,
    ) -> Result<RankedSpace, ModelError> {
        let Self { named, configs, prepared, .. } = self;
        let metadata = model.metadata();
        let mut predicted = if is_shortlist {
            prepared.shortlist(model, features, configs)?
        } else {
            prepared.all(model, features, configs)?
        };
        let best = predicted.iter().map(|one| one.us).fold(f64::INFINITY, f64::min);
        let rounds = configs.iter().all(|config| config.rounds(problem));
        let library = if configs.is_empty() { None } else { model.library_us(features, best, rounds)? };
        fastest_first(&mut predicted);
        let config = |one: &Predicted| {
            let config = configs[one.tile];
            if named.is_some() { config.for_k(problem.k) } else { config }
        };
        let ranked = predicted.iter().map(|one| (config(one), Micros(one.us * metadata.pick_bias))).collect();
        let library = library.map(Micros);
        let mut ranked = RankedSpace::new(ranked, library, metadata.library_handicap).rounding(rounds);
        ranked.considered = configs.len();
        // The lowest floor: for a warm cache, and with TF32 where the problem allows it.
        let floor = metadata
            .hardware
            .facts
            .as_ref()
            .and_then(|facts| floor(facts, problem, Method::Unspecified, true));
        Ok(match floor {
            Some(floor) => ranked.bounded_by(floor),
            None => ranked,
        })
    }
}

/// The library can be one of several picks only if its predicted time, after the handicap, is less than the best
/// config's predicted time multiplied by this.
const LIBRARY_REACH: f64 = 1.3;

/// The configs of a space for one problem, with the best first.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedSpace {
    pub configs: Vec<(Config, Micros)>,
    /// How many configs there were to choose from.
    pub considered: usize,
    /// The predicted time of the library, if the model predicts it.
    pub library: Option<Micros>,
    /// Whether some predicted time was shorter than the hardware allows. The floor has replaced it.
    pub bounded: bool,
    /// Whether the configs and the library round float32 to TF32.
    rounds: bool,
    /// The factor for the library's time when picks are made.
    library_handicap: f64,
}

impl RankedSpace {
    /// A ranking from sorted configs, the library's predicted time, and the factor for this time when picks
    /// are made.
    pub fn new(configs: Vec<(Config, Micros)>, library: Option<Micros>, library_handicap: f64) -> Self {
        Self { considered: configs.len(), configs, library, bounded: false, rounds: false, library_handicap }
    }

    /// The same ranking of configs that round float32 to TF32, or that do not.
    #[must_use]
    pub fn rounding(self, rounds: bool) -> Self {
        Self { rounds, ..self }
    }

    /// Whether the configs and the library round float32 to TF32.
    pub fn rounds(&self) -> bool {
        self.rounds
    }

    /// The library that computes what the configs do.
    pub fn library_config(&self) -> Config {
        Config::library(self.rounds)
    }

    /// Replaces times below `floor` by `floor`. The order stays.
    pub(crate) fn bounded_by(mut self, floor: Micros) -> Self {
        for time in self.configs.iter_mut().map(|(_, time)| time).chain(&mut self.library) {
            if *time < floor {
                *time = floor;
                self.bounded = true;
            }
        }
        self
    }

    /// The `count` picks to measure, with the best first. They are not only near-copies of the first pick.
    /// The library is one of them if it may be the best of all.
    ///
    /// `docs/guides/models.md` has the rule.
    pub fn picks(&self, count: usize) -> Vec<(Config, Micros)> {
        let Some(library) = self.library else { return diverse(&self.configs, count) };
        let counts_for = |&(config, time): &(Config, Micros)| {
            time.0 * if config.is_library() { self.library_handicap } else { 1.0 }
        };
        let best = self.configs.first().map_or(f64::INFINITY, |(_, time)| time.0);
        let library = (self.library_config(), library);
        // A single pick must have the least time. One of several picks is the library, unless the library's
        // predicted time is far off.
        let reach = if count == 1 { 1.0 } else { LIBRARY_REACH };
        if counts_for(&library) >= best * reach || count == 0 {
            return diverse(&self.configs, count);
        }
        let mut picks = diverse(&self.configs, count - 1);
        picks.push(library);
        picks.sort_by(|a, b| counts_for(a).total_cmp(&counts_for(b)));
        picks
    }

    /// The `count` configs with the least predicted times that were not picked. The library may be one of
    /// them.
    pub fn near(&self, picks: &[(Config, Micros)], count: usize) -> Vec<(Config, Micros)> {
        let library = self.library.map(|time| (self.library_config(), time));
        let is_picked =
            |one: &(Config, Micros)| picks.iter().any(|it| it.0 == one.0 || have_one_kernel(it, one));
        let all = self.configs.iter().copied().chain(library);
        let mut near: Vec<_> = all.filter(|one| !is_picked(one)).collect();
        near.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
        near.dedup_by(|a, b| have_one_kernel(a, b));
        near.truncate(count);
        near
    }
}

/// Added to the logarithm of a config's predicted time for each earlier pick of which it is a near-copy.
/// Predictions of near-copies have similar errors, so measuring both finds little more than measuring one of
/// them.
const COPY_HANDICAP: f64 = 0.01;
/// How many of a ranking's first configs are considered for each pick.
const CHOICE: usize = 8;

/// The picks from a ranking, best first. A pick is chosen by its predicted time and by the number of
/// near-copies that were chosen before it. Of configs with one kernel, only the first is picked.
pub(crate) fn diverse(ranked: &[(Config, Micros)], count: usize) -> Vec<(Config, Micros)> {
    let choice = &ranked[..ranked.len().min(count.saturating_mul(CHOICE))];
    let mut handicaps: Vec<f64> = choice.iter().map(|(_, time)| libm::log(time.0)).collect();
    let mut chosen: Vec<usize> = Vec::with_capacity(count.min(choice.len()));
    while chosen.len() < count.min(choice.len()) {
        let open = (0..choice.len()).filter(|at| !chosen.contains(at) && handicaps[*at].is_finite());
        let Some(next) = open.min_by(|&a, &b| handicaps[a].total_cmp(&handicaps[b])) else { break };
        chosen.push(next);
        for (handicap, other) in handicaps.iter_mut().zip(choice) {
            if have_one_kernel(other, &choice[next]) {
                *handicap = f64::INFINITY;
            } else if near_copies(&other.0, &choice[next].0) {
                *handicap += COPY_HANDICAP;
            }
        }
    }
    chosen.sort_unstable();
    chosen.into_iter().map(|at| choice[at]).collect()
}

/// Whether two configs differ in their stages alone and have exactly the same predicted time. Then stages do
/// not matter for the problem.
pub(crate) fn have_one_kernel(a: &(Config, Micros), b: &(Config, Micros)) -> bool {
    let kernel = |config: &Config| config.tile().map(|tile| tile_key(tile, Loading::BY_THE_ELEMENT));
    a.1 == b.1 && kernel(&a.0).is_some_and(|key| kernel(&b.0) == Some(key))
}

/// Whether two configs have the same block sizes, stages that differ by at most 1, and warps that differ by at
/// most a factor of 2.
fn near_copies(a: &Config, b: &Config) -> bool {
    let (Some(a), Some(b)) = (a.tile(), b.tile()) else { return false };
    let plain = |tile: &Tile| Tile { num_stages: 1, num_warps: 1, rocm: None, group_m: 1, ..*tile };
    plain(a) == plain(b)
        && a.num_stages.abs_diff(b.num_stages) <= 1
        && a.num_warps.max(b.num_warps) <= 2 * a.num_warps.min(b.num_warps)
}

#[cfg(test)]
mod ranked_space_tests {
    use diode_core::Tile;

    use super::*;

    #[test]
    fn no_time_is_shorter_than_the_floor() {
        let config = |stages| Config::Mm(Tile::new(128, 128, 64, stages, 8));
        let configs = vec![(config(3), Micros(4.0)), (config(4), Micros(5.0)), (config(5), Micros(9.0))];
        let ranked = RankedSpace::new(configs, Some(Micros(3.0)), 1.0);
        assert_eq!(ranked.clone().bounded_by(Micros(2.0)), ranked);
        let bounded = ranked.bounded_by(Micros(6.0));
        assert!(bounded.bounded);
        assert_eq!(bounded.library, Some(Micros(6.0)));
        let times = [6.0, 6.0, 9.0].map(Micros);
        let order = [config(3), config(4), config(5)];
        assert!(bounded.configs.into_iter().eq(order.into_iter().zip(times)));
    }
}

#[cfg(test)]
mod picks_tests {
    use super::*;

    fn tile(block_m: u32, stages: u32, warps: u32) -> Config {
        Config::Mm(Tile::new(block_m, 128, 64, stages, warps))
    }

    #[test]
    fn near_copies_do_not_fill_the_picks() {
        let ranked = [
            (tile(128, 3, 8), Micros(100.0)),
            (tile(128, 4, 8), Micros(100.1)),
            (tile(128, 3, 4), Micros(100.2)),
            (tile(64, 3, 4), Micros(100.9)),
            (tile(256, 3, 8), Micros(101.5)),
        ];
        let picked = |count| diverse(&ranked, count).iter().map(|(config, _)| *config).collect::<Vec<_>>();
        assert_eq!(picked(1), [ranked[0].0]);
        assert_eq!(picked(2), [ranked[0].0, ranked[3].0]);
        assert_eq!(picked(3), [ranked[0].0, ranked[1].0, ranked[3].0]);
        assert_eq!(picked(9).len(), 5);
        assert!(picked(0).is_empty());
    }

    #[test]
    fn what_is_clearly_better_is_picked_also_as_a_copy() {
        let ranked = [
            (tile(128, 3, 8), Micros(100.0)),
            (tile(128, 4, 8), Micros(100.5)),
            (tile(64, 3, 4), Micros(104.0)),
        ];
        assert_eq!(diverse(&ranked, 2), ranked[..2]);
    }
}
