//! Ranks spaces for one problem after the other.

use std::ops::Deref;

use diode_core::hardware::floor;
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, DType, Method, Micros, Op, Problem};
use diode_numeric::{Effort, Predicted, PreparedTiles, fastest_first};

use crate::features::{ProblemFeatures, featured_tile};
use crate::ranked_space::RankedSpace;
use crate::{Model, ModelError};

/// The most picks that a shortlist is made for; more are picked from the whole space.
pub const MOST_PICKS: usize = 16;
/// A shortlist predicts the scouts and this many further blocks of tiles.
const SHORTLIST: Effort = Effort::Blocks(56);

/// Ranks a whole space for one problem; a [`Ranker`] does it for many.
pub fn rank(model: &Model, problem: &Problem, space: &Space) -> Result<RankedSpace, ModelError> {
    Ranker::new(model).rank(problem, space)
}

/// Ranks a space for each of many problems.
pub fn rank_all(model: &Model, problems: &[Problem], space: &Space) -> Result<Vec<RankedSpace>, ModelError> {
    let mut ranker = Ranker::new(model);
    problems.iter().map(|problem| ranker.rank(problem, space)).collect()
}

/// Ranks spaces with a model, borrowed or shared. What depends on configs alone is computed once, as
/// long as the space and the types of the inputs stay the same.
#[derive(Debug, Clone)]
pub struct Ranker<M> {
    model: M,
    last: Option<PreparedSpace>,
}

/// The last space that was ranked.
#[derive(Debug, Clone)]
struct PreparedSpace {
    /// `None` for a list.
    named: Option<SpaceName>,
    kind: (Op, DType, DType),
    /// Sorted as configs are: this order decides between equal predicted times.
    configs: Vec<Config>,
    prepared: PreparedTiles,
}

impl<M: Deref<Target = Model>> Ranker<M> {
    pub fn new(model: M) -> Self {
        Self { model, last: None }
    }

    /// Every config of a space, best first. Equal predicted times keep the order of the configs themselves, so
    /// the ranking does not depend on how the space was listed.
    ///
    /// The library in a list of configs is not ranked with them; its time is given apart.
    pub fn rank(&mut self, problem: &Problem, space: &Space) -> Result<RankedSpace, ModelError> {
        self.ranked(problem, space, Effort::All)
    }

    /// Ranks a few hundred configs, which hold the best [`MOST_PICKS`]: for picks.
    pub fn shortlist(&mut self, problem: &Problem, space: &Space) -> Result<RankedSpace, ModelError> {
        self.ranked(problem, space, SHORTLIST)
    }

    fn ranked(
        &mut self,
        problem: &Problem,
        space: &Space,
        effort: Effort,
    ) -> Result<RankedSpace, ModelError> {
        let features = self.model.features(problem)?;
        let last = self.last.take();
        let space = self.last.insert(PreparedSpace::of(&self.model, &features, problem, space, last)?);
        space.ranked(&self.model, &features, problem, effort)
    }
}

impl PreparedSpace {
    /// The space, prepared for problems like this one; the last space is used again if it fits.
    fn of(
        model: &Model,
        features: &ProblemFeatures,
        problem: &Problem,
        space: &Space,
        last: Option<Self>,
    ) -> Result<Self, ModelError> {
        let hardware = &model.metadata().hardware;
        let kind = (problem.op, problem.a_dtype, problem.b_dtype);
        let named = match space {
            Space::Named(name) => Some(*name),
            Space::List(_) => None,
        };
        let last = last.filter(|last| last.kind == kind && !space.follows_sizes(hardware));
        let last = match last {
            Some(last) if named.is_some() && last.named == named => return Ok(last),
            last => last,
        };
        let mut configs = space.configs(hardware, problem)?;
        configs.sort_unstable();
        configs.retain(|config| *config != Config::Library || !model.knows_library());
        let tiles = configs.iter().map(featured_tile).collect::<Result<Vec<_>, _>>()?;
        if named.is_none() {
            configs.iter().try_for_each(Config::validate)?;
        }
        // Measured configs of two problems often differ in `EVEN_K` alone, which changes no time.
        let alike = |last: &Self| {
            let same = |(a, b): (&Config, &Config)| a.for_k(1) == b.for_k(1);
            last.configs.len() == configs.len() && last.configs.iter().zip(&configs).all(same)
        };
        if let Some(last) = last.filter(alike) {
            return Ok(Self { named, configs, ..last });
        }
        let prepared = PreparedTiles::new(model.network(), features, &tiles);
        Ok(Self { named, kind, configs, prepared })
    }

    fn ranked(
        &self,
        model: &Model,
        features: &ProblemFeatures,
        problem: &Problem,
        effort: Effort,
    ) -> Result<RankedSpace, ModelError> {
        let Self { named, configs, prepared, .. } = self;
        let metadata = model.metadata();
        let mut predicted = model.predict_prepared(features, configs, prepared, effort)?;
        let best = predicted.iter().map(|one| one.us).fold(f64::INFINITY, f64::min);
        let library = if configs.is_empty() { None } else { model.library_us(features, best)? };
        fastest_first(&mut predicted);
        let config = |one: &Predicted| {
            let config = configs[one.tile];
            if named.is_some() { config.for_k(problem.k) } else { config }
        };
        let ranked = predicted.iter().map(|one| (config(one), Micros(one.us * metadata.pick_bias))).collect();
        let mut ranked = RankedSpace::new(ranked, library.map(Micros), metadata.library_handicap);
        ranked.considered = configs.len();
        // The most generous floor: of a warm cache, and with TF32 where it can be.
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
