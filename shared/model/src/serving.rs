//! Scaled, grouped and experts problems: their part of a model, and how it ranks configs.
//!
//! It has networks and features of its own. What the model says of other problems does not depend on it.

use std::ops::Deref;

use diode_core::baselines::Baseline;
use diode_core::hardware::{Hardware, floor};
use diode_core::ids::{Digest, HardwareSlug};
use diode_core::space::serving::groups;
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, DType, Invalid, Method, Micros, Op, Problem, Scaling};
use diode_numeric::serving::{SERVING_COLUMNS, SERVING_FEATURES, SERVING_LIBRARY_COLUMNS, ServingFeatures};
use serde::{Deserialize, Serialize};

use crate::{Limits, MOST_PICKS, Misfit, Model, ModelError, Network, RankedSpace, Ranker};

/// The part of a model for scaled, grouped and experts problems.
#[derive(Debug, Clone, PartialEq)]
pub struct Serving {
    pub about: ServingAbout,
    /// Their predictions are averaged. The first one alone chooses the tiles that all look at.
    networks: Vec<Network>,
    /// Predicts what runs untuned: the library, or torch's own kernels.
    library: Option<Network>,
}

/// What a model's file states about this part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServingAbout {
    /// `serving/1`
    pub feature_set: String,
    /// The hardware that was timed, if it is not the model's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_in_from: Option<HardwareSlug>,
    pub data_digest: Digest,
    pub problems: u64,
    pub timings: u64,
    /// The kinds in the training data.
    pub kinds: Vec<ServingKind>,
    /// The factor for the predicted times of picks.
    pub pick_bias: f64,
    /// A tile replaces vLLM's default only if its predicted time is less than the default's times this.
    pub default_handicap: f64,
    /// How good picks were on models that were not learnt.
    #[serde(default)]
    pub judged: Vec<ServingFigures>,
}

/// A kind of problem that these networks know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ServingKind {
    pub op: Op,
    pub dtype: DType,
    pub scaling: Scaling,
}

/// How good picks of a kind were on models that were not learnt. Shares are of the best of everything that was timed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServingFigures {
    pub kind: ServingKind,
    pub problems: u64,
    /// The first pick's share: geometric mean and worst.
    pub first: (f64, f64),
    /// The share of the best of the first five picks, as a geometric mean.
    pub five: f64,
    /// For rising numbers of picks: how often the best of them is within 5 % of the best.
    pub within_5_percent: Vec<(u32, f64)>,
    /// The measured time of the first pick / its predicted time, in four cases of five.
    pub time_range: (f64, f64),
}

impl ServingKind {
    pub fn of(problem: &Problem) -> Self {
        let dtype = if problem.a_dtype.is_fp8() { DType::Float8E4M3 } else { problem.a_dtype };
        Self { op: problem.op, dtype, scaling: problem.scaling }
    }
}

impl std::fmt::Display for ServingKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} in {}", self.op, self.dtype)?;
        match self.scaling {
            Scaling::None => Ok(()),
            scaling => write!(f, " by {scaling}"),
        }
    }
}

/// The most networks of this part.
pub const MAX_NETWORKS: usize = 8;
/// How many of the best tiles by the first network all networks look at, with every width of a group of row blocks.
const LOOKED_AT: usize = 24;

impl Serving {
    pub fn new(
        about: ServingAbout,
        networks: Vec<Network>,
        library: Option<Network>,
    ) -> Result<Self, ModelError> {
        if about.feature_set != SERVING_FEATURES {
            return Err(ModelError::UnknownFeatureSet {
                given: about.feature_set,
                expected: SERVING_FEATURES,
            });
        }
        for (name, factor) in [("pick_bias", about.pick_bias), ("default_handicap", about.default_handicap)] {
            if !(factor.is_finite() && factor > 0.0) {
                return Err(Invalid::new(name, factor, "a finite factor above 0").into());
            }
        }
        if networks.is_empty() || networks.len() > MAX_NETWORKS {
            return Err(Misfit {
                name: "serving".to_owned(),
                given: format!("{} networks", networks.len()),
                expected: format!("1 to {MAX_NETWORKS}"),
            }
            .into());
        }
        networks.iter().try_for_each(|network| network.expect_inputs(SERVING_COLUMNS))?;
        if let Some(library) = &library {
            library.expect_inputs(SERVING_LIBRARY_COLUMNS)?;
        }
        Ok(Self { about, networks, library })
    }

    pub fn networks(&self) -> &[Network] {
        &self.networks
    }

    pub fn library(&self) -> Option<&Network> {
        self.library.as_ref()
    }

    /// What was measured of a problem's kind on models that were not learnt.
    pub fn figures(&self, problem: &Problem) -> Option<&ServingFigures> {
        let kind = ServingKind::of(problem);
        self.about.judged.iter().find(|known| known.kind == kind)
    }

    /// The configs of one launch, or of several launches that take one config, with the best first.
    pub fn rank(
        &self,
        hardware: &Hardware,
        launches: &[&Problem],
        limits: Option<Limits>,
        all: bool,
    ) -> Result<RankedSpace, ModelError> {
        let Some(&first) = launches.first() else {
            return Err(Invalid::new("launches", 0, "at least one").into());
        };
        let features =
            launches.iter().map(|problem| self.features(hardware, problem)).collect::<Result<Vec<_>, _>>()?;
        let mut configs = Space::Named(SpaceName::Full).configs(hardware, first)?;
        if let Some(limits) = limits {
            configs.retain(|config| limits.obstacle(config).is_none());
        }
        let considered = configs.len();
        if !all {
            configs = self.shortlist(first, &features, configs)?;
        }
        let mut ranked = self.times(&features, configs)?;
        ranked.sort_by(|a, b| a.1.0.total_cmp(&b.1.0).then(a.0.cmp(&b.0)));
        let best = ranked.first().map_or(f64::INFINITY, |(_, time)| time.0);
        let library = self.library.as_ref().filter(|_| first.op != Op::FusedMoe);
        let library = library.map(|network| Micros(features[0].library_us(network, best)));
        for (_, time) in &mut ranked {
            time.0 *= self.about.pick_bias;
        }
        let mut space = RankedSpace::new(ranked, library, 1.0);
        space.considered = considered;
        let floors: Option<f64> = launches
            .iter()
            .map(|problem| Some(floor(hardware.facts.as_ref()?, problem, Method::Unspecified, true)?.0))
            .sum();
        Ok(match floors {
            Some(floor) => space.bounded_by(Micros(floor)),
            None => space,
        })
    }

    /// The predicted time of each config. The library may be among them.
    pub(crate) fn predict(
        &self,
        hardware: &Hardware,
        problem: &Problem,
        configs: &[Config],
    ) -> Result<Vec<Micros>, ModelError> {
        configs.iter().try_for_each(Config::validate)?;
        let features = [self.features(hardware, problem)?];
        let tiled = configs.iter().filter(|config| !config.is_library()).copied().collect();
        let mut times = self.times(&features, tiled)?.into_iter().map(|(_, time)| time);
        if times.len() == configs.len() {
            return Ok(times.collect());
        }
        let library = self.rank(hardware, &[problem], None, false)?.library;
        let library = library.ok_or(ModelError::NoFeatures(Config::Library.template()))?;
        let of = |config: &Config| if config.is_library() { Some(library) } else { times.next() };
        Ok(configs.iter().map_while(of).collect())
    }

    /// The predicted times of configs, added up over launches.
    pub fn times(
        &self,
        features: &[ServingFeatures],
        configs: Vec<Config>,
    ) -> Result<Vec<(Config, Micros)>, ModelError> {
        let mut sums = vec![0.0; configs.len()];
        for launch in features {
            let times = launch.predict(&self.networks, &configs);
            for ((sum, time), config) in sums.iter_mut().zip(times).zip(&configs) {
                *sum += time.ok_or(ModelError::NoFeatures(config.template()))?;
            }
        }
        match configs.iter().zip(&sums).find(|(_, sum)| !sum.is_finite()) {
            Some((config, _)) => Err(ModelError::NotFinite { label: config.label() }),
            None => Ok(configs.into_iter().zip(sums.into_iter().map(Micros)).collect()),
        }
    }

    /// The tiles that the first network finds best, with every width of a group.
    fn shortlist(
        &self,
        problem: &Problem,
        features: &[ServingFeatures],
        configs: Vec<Config>,
    ) -> Result<Vec<Config>, ModelError> {
        let usual = groups(problem).first().copied();
        let is_usual = |config: &Config| config.tile().map(|tile| tile.group_m) == usual;
        let scouts: Vec<usize> = (0..configs.len()).filter(|&at| is_usual(&configs[at])).collect();
        let tiles: Vec<Config> = scouts.iter().map(|&at| configs[at]).collect();
        let mut sums = vec![0.0; tiles.len()];
        for launch in features {
            let times = launch.predict(&self.networks[..1], &tiles);
            sums.iter_mut().zip(times).for_each(|(sum, time)| *sum += time.unwrap_or(f64::INFINITY));
        }
        let mut order: Vec<usize> = (0..tiles.len()).collect();
        order.sort_by(|&a, &b| sums[a].total_cmp(&sums[b]));
        order.truncate(LOOKED_AT);
        // The other widths of a tile stand behind the usual one.
        let with_widths = |&place: &usize| {
            let from = scouts[place];
            let until = scouts.get(place + 1).copied().unwrap_or(configs.len());
            configs[from..until].iter().copied()
        };
        Ok(order.iter().flat_map(with_widths).collect())
    }

    fn features(&self, hardware: &Hardware, problem: &Problem) -> Result<ServingFeatures, ModelError> {
        let facts = hardware.facts.ok_or_else(|| ModelError::NoFacts { hardware: hardware.slug.clone() })?;
        ServingFeatures::new(&facts, problem)
            .ok_or_else(|| ModelError::NoUnit { dtype: problem.a_dtype, hardware: hardware.name.clone() })
    }

    /// A reason to doubt the predicted times.
    pub fn caveat(
        &self,
        hardware: &Hardware,
        from: Option<&HardwareSlug>,
        problem: &Problem,
    ) -> Option<String> {
        let mut sentences = Vec::new();
        if let Some(from) = from.or(self.about.stands_in_from.as_ref()) {
            sentences.push(format!(
                "Predicted by the model of {from} standing in: nobody has timed such problems on {}.",
                hardware.name
            ));
        }
        let kind = ServingKind::of(problem);
        if !self.about.kinds.contains(&kind) {
            let known: Vec<String> = self.about.kinds.iter().map(ToString::to_string).collect();
            sentences.push(format!(
                "This model was trained on {}; for {kind} it extrapolates, and nobody has measured how well.",
                known.join(", ")
            ));
        }
        (!sentences.is_empty()).then(|| sentences.join(" "))
    }
}

/// One config for all launches of a layer of experts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerAnswer {
    /// The best stands first. Times are for all launches together.
    pub picks: Vec<(Config, Micros)>,
    /// What runs without a tuned file, and its predicted time.
    pub untuned: Option<(Config, Micros)>,
    /// Whether what runs untuned is the first pick because nothing is predicted to be clearly faster.
    pub keeps_untuned: bool,
    /// How many configs there were to choose from.
    pub considered: usize,
    pub caveat: Option<String>,
}

impl<M: Deref<Target = Model>> Ranker<M> {
    /// One config for several launches, such as both multiplications of a layer of experts.
    ///
    /// What runs untuned stays the first pick unless a tile is predicted to be clearly faster.
    pub fn answer_layer(&mut self, launches: &[&Problem], picks: usize) -> Result<LayerAnswer, ModelError> {
        self.model().layer(launches, picks, None)
    }
}

impl Model {
    /// The part for scaled, grouped and experts problems.
    pub fn serving_for(&self, problem: &Problem) -> Result<&Serving, ModelError> {
        self.serving().ok_or_else(|| ModelError::NoServing {
            op: problem.op,
            hardware: self.metadata().hardware.slug.clone(),
        })
    }

    pub(crate) fn layer(
        &self,
        launches: &[&Problem],
        picks: usize,
        limits: Option<Limits>,
    ) -> Result<LayerAnswer, ModelError> {
        let Some(&first) = launches.first() else {
            return Err(Invalid::new("launches", 0, "at least one").into());
        };
        let serving = self.serving_for(first)?;
        let hardware = &self.metadata().hardware;
        let ranked = serving.rank(hardware, launches, limits, picks > MOST_PICKS)?;
        let (untuned, keeps_untuned) = serving.keeps(hardware, launches, &ranked)?;
        let mut picked = ranked.picks(picks);
        if let Some(kept) = untuned.filter(|_| keeps_untuned) {
            put_first(&mut picked, kept);
        }
        let caveat = serving.caveat(hardware, self.metadata().stands_in_from.as_ref(), first);
        Ok(LayerAnswer { picks: picked, untuned, keeps_untuned, considered: ranked.considered, caveat })
    }
}

impl Serving {
    /// What runs untuned with its predicted time, and whether it stays the first pick.
    pub(crate) fn keeps(
        &self,
        hardware: &Hardware,
        launches: &[&Problem],
        ranked: &RankedSpace,
    ) -> Result<(Option<(Config, Micros)>, bool), ModelError> {
        let experts = launches.first().filter(|problem| problem.op == Op::FusedMoe);
        let Some(config) = experts.and_then(|problem| Baseline::VllmDefault.config(hardware, problem)) else {
            return Ok((None, false));
        };
        let time = self.time_of(hardware, launches, config)?;
        let best = ranked.configs.first().map_or(f64::INFINITY, |(_, time)| time.0);
        Ok((Some((config, time)), best >= time.0 * self.about.default_handicap))
    }

    /// The predicted time of one config for all launches, beside those of [`Self::rank`].
    pub fn time_of(
        &self,
        hardware: &Hardware,
        launches: &[&Problem],
        config: Config,
    ) -> Result<Micros, ModelError> {
        let features =
            launches.iter().map(|problem| self.features(hardware, problem)).collect::<Result<Vec<_>, _>>()?;
        let sum: f64 = self.times(&features, vec![config])?.iter().map(|(_, time)| time.0).sum();
        Ok(Micros(sum * self.about.pick_bias))
    }
}

/// Makes a config the first pick, and leaves equally many.
pub fn put_first(picks: &mut Vec<(Config, Micros)>, first: (Config, Micros)) {
    match picks.iter().position(|(config, _)| *config == first.0) {
        Some(at) => picks[..=at].rotate_right(1),
        None => {
            picks.pop();
            picks.insert(0, first);
        }
    }
}
