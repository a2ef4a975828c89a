//! Ranks spaces for one problem after the other.

use std::ops::Deref;

use diode_core::hardware::floor;
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, DType, Layout, Method, Micros, Op, Problem};
use diode_numeric::{Predicted, fastest_first};

use crate::features::{Loading, ProblemFeatures, featured_tile};
use crate::mean::PreparedConfigs;
use crate::ranked_space::RankedSpace;
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
