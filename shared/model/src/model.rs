//! A trained model.

use std::ops::Deref;

use diode_api::EvaluationReport;
use diode_core::hardware::Hardware;
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, Method, Micros, Problem, ProblemGroup};
use diode_numeric::{Network, math};

use crate::features::{LIBRARY_COLUMNS, ProblemFeatures, featured_tile};
use crate::metadata::{GroupConfidence, Metadata, Training};
use crate::tile_network::PreparedConfigs;
use crate::{
    Misfit, ModelError, Question, RankedSpace, Ranker, Serving, TileKey, TileNetwork, Unsure, file, rank,
};

/// The caveat for a model that has not learnt how fast the library is with rounding to TF32.
const TF32_CAVEAT: &str = "These configs round float32 to TF32. The model does not know the library's time there, and its file does not say how good its picks are.";

/// A trained model. It predicts how long configs take on problems of one hardware.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    metadata: Metadata,
    network: TileNetwork,
    /// Networks of the same kind that have learnt from other parts of the data. Their predictions are averaged
    /// with the network's where these matter most.
    further: Vec<TileNetwork>,
    /// The network that predicts the library, if the training data had the library's times.
    library: Option<Network>,
    /// The network that predicts the library where float32 is rounded to TF32.
    rounding_library: Option<Network>,
    /// The part for scaled, grouped and experts problems.
    serving: Option<Serving>,
    /// Whether the model now predicts times by its second method.
    second_method: bool,
}

/// What was measured on problems that the model was not trained on.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    pub report: EvaluationReport,
    pub confidence: Vec<GroupConfidence>,
    pub pick_bias: f64,
    pub library_handicap: f64,
}

impl Model {
    /// The most further networks of a model.
    pub const MAX_FURTHER: usize = 16;

    /// A model from its metadata and a network that takes features alone.
    pub fn new(metadata: Metadata, network: Network) -> Result<Self, ModelError> {
        Self::from_network(metadata, TileNetwork::new(network, None)?)
    }

    /// A model from its metadata and its network.
    pub fn from_network(metadata: Metadata, network: TileNetwork) -> Result<Self, ModelError> {
        metadata.validate()?;
        Ok(Self {
            metadata,
            network,
            further: Vec::new(),
            library: None,
            rounding_library: None,
            serving: None,
            second_method: false,
        })
    }

    /// Adds further networks, whose predictions are averaged with those of the network.
    pub fn with_further(self, further: Vec<TileNetwork>) -> Result<Self, ModelError> {
        fn tiles(network: &TileNetwork) -> Option<&[TileKey]> {
            Some(network.values()?.tiles())
        }
        let is_alike = |other: &TileNetwork| tiles(other) == tiles(&self.network);
        if further.len() > Self::MAX_FURTHER || !further.iter().all(is_alike) {
            return Err(Misfit {
                name: "further".to_owned(),
                given: format!("{} networks", further.len()),
                expected: format!("at most {}, with values for the same tiles", Self::MAX_FURTHER),
            }
            .into());
        }
        Ok(Self { further, ..self })
    }

    /// Adds the network that predicts the library.
    pub fn with_library(self, library: Network) -> Result<Self, ModelError> {
        library.expect_inputs(LIBRARY_COLUMNS)?;
        Ok(Self { library: Some(library), ..self })
    }

    /// Adds the network that predicts the library where float32 is rounded to TF32.
    pub fn with_rounding_library(self, library: Network) -> Result<Self, ModelError> {
        library.expect_inputs(LIBRARY_COLUMNS)?;
        Ok(Self { rounding_library: Some(library), ..self })
    }

    /// Adds the part for scaled, grouped and experts problems.
    #[must_use]
    pub fn with_serving(self, serving: Serving) -> Self {
        Self { serving: Some(serving), ..self }
    }

    /// The part for scaled, grouped and experts problems, if the model has learnt them.
    pub fn serving(&self) -> Option<&Serving> {
        self.serving.as_ref()
    }

    /// Adds what was measured on problems that the model was not trained on.
    pub fn with_judgement(mut self, judgement: Judgement) -> Result<Self, ModelError> {
        self.metadata.evaluation = Some(judgement.report);
        self.metadata.confidence = judgement.confidence;
        self.with_corrections(judgement.pick_bias, judgement.library_handicap)
    }

    /// Sets the factors that correct predicted times and picks of the library. They are measured on problems
    /// that the model was not trained on.
    pub fn with_corrections(mut self, pick_bias: f64, library_handicap: f64) -> Result<Self, ModelError> {
        self.metadata.pick_bias = pick_bias;
        self.metadata.library_handicap = library_handicap;
        self.metadata.validate()?;
        Ok(self)
    }

    /// The same weights for other hardware, on which nobody has judged them.
    pub fn standing_in_for(&self, hardware: Hardware) -> Result<Self, ModelError> {
        let trained_on = self.metadata.stands_in_from.as_ref().unwrap_or(&self.metadata.hardware.slug);
        let metadata = Metadata {
            stands_in_from: Some(trained_on.clone()),
            hardware,
            evaluation: None,
            confidence: Vec::new(),
            ..self.metadata.clone()
        };
        metadata.validate()?;
        Ok(Self { metadata, ..self.clone() })
    }

    /// The same model with times by another method. If it has not learnt that method, it keeps its own.
    pub fn for_method(&self, method: Method) -> Self {
        let second_method = self.metadata.second_method == Some(method);
        Self { second_method, ..self.clone() }
    }

    /// Reads a model file. Everything in it is checked, so that a loaded model does not fail later.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        let file::Parts { metadata, network, further, library, rounding_library, serving } =
            file::read(bytes)?;
        let mut model = Self::from_network(metadata, network)?.with_further(further)?;
        if let Some(library) = library {
            model = model.with_library(library)?;
        }
        if let Some(library) = rounding_library {
            model = model.with_rounding_library(library)?;
        }
        Ok(Self { serving, ..model })
    }

    /// The model file. The same model always gives the same bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ModelError> {
        let networks: Vec<&TileNetwork> = self.networks().collect();
        let libraries = [self.library.as_ref(), self.rounding_library.as_ref()];
        file::write(&self.metadata, &networks, libraries, self.serving.as_ref())
    }

    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The number of weights that were learnt.
    pub fn parameters(&self) -> u64 {
        let libraries = self.library.iter().chain(&self.rounding_library);
        let tiles: u64 = self.networks().map(TileNetwork::parameters).sum();
        let serving = self.serving.iter().flat_map(|part| part.networks().iter().chain(part.library()));
        tiles + libraries.chain(serving).map(Network::parameters).sum::<u64>()
    }

    /// The network that predicts the times of tiles.
    pub fn network(&self) -> &TileNetwork {
        &self.network
    }

    /// The network and the further networks.
    pub fn networks(&self) -> impl Iterator<Item = &TileNetwork> {
        std::iter::once(&self.network).chain(&self.further)
    }

    /// Whether the model predicts the library's time, so that it can pick the library. `rounds` asks for problems
    /// whose float32 inputs are rounded to TF32.
    pub fn knows_library(&self, rounds: bool) -> bool {
        self.library(rounds).is_some()
    }

    fn library(&self, rounds: bool) -> Option<&Network> {
        if rounds { self.rounding_library.as_ref() } else { self.library.as_ref() }
    }

    /// Says in one sentence for people how a problem differs from the training problems. `None` if its kind
    /// and sizes are among theirs. Otherwise the prediction rests on the physics of the features alone, and
    /// nobody has measured how good it is.
    pub fn extrapolates(&self, problem: &Problem) -> Option<String> {
        let Metadata { ops, dtypes, range, hardware, stands_in_from, .. } = &self.metadata;
        if let Some(trained_on) = stands_in_from {
            return Some(format!(
                "This model was trained on {trained_on} and stands in with the facts of {}, where nobody has \
                 measured how good it is.",
                hardware.name
            ));
        }
        let outside = match range {
            Some(range) => range.outside(problem)?,
            None if ops.contains(&problem.op) && dtypes.contains(&problem.a_dtype) => return None,
            None => format!("{} in {}", problem.op, problem.a_dtype),
        };
        let list = |names: Vec<String>| names.join(", ");
        Some(format!(
            "This model was trained on {} in {}; for {outside} it extrapolates, and nobody has measured how well.",
            list(ops.iter().map(ToString::to_string).collect()),
            list(dtypes.iter().map(ToString::to_string).collect()),
        ))
    }

    /// In words for people, what may be wrong with the predicted times. `None` if nothing is known to be.
    pub fn caveat(&self, problem: &Problem, ranked: &RankedSpace) -> Option<String> {
        let extrapolates = self.extrapolates(problem);
        let bounded = ranked.bounded.then(|| {
            let subject = match extrapolates {
                Some(_) => "It",
                None => "The problem is larger than what the model was trained on: it",
            };
            format!(
                "{subject} predicts times shorter than {} can take, so the least possible time stands in their place.",
                self.metadata.hardware.name
            )
        });
        let tf32_is_unknown = ranked.rounds() && ranked.library.is_none();
        let unknown = (tf32_is_unknown && extrapolates.is_none()).then(|| TF32_CAVEAT.to_owned());
        let sentences: Vec<String> = extrapolates.iter().cloned().chain(unknown).chain(bounded).collect();
        (!sentences.is_empty()).then(|| sentences.join(" "))
    }

    /// The confidence in the picks for a problem, if it was measured. Picks that round float32 to TF32 were judged only
    /// if the library was known there.
    pub(crate) fn confidence(&self, problem: &Problem, rounds: bool) -> Option<&GroupConfidence> {
        let group = ProblemGroup::for_problem(problem);
        let known = self.metadata.confidence.iter().find(|confidence| confidence.group == group)?;
        let is_judged = !rounds || self.knows_library(true);
        (is_judged && self.extrapolates(problem).is_none()).then_some(known)
    }

    /// How many picks contain a config within 5 % of the best with this probability, on problems like this one.
    pub fn picks_for(
        &self,
        problem: &Problem,
        question: &Question<'_>,
        probability: f64,
    ) -> Result<usize, Unsure> {
        let known = self
            .confidence(problem, question.rounds(problem))
            .ok_or_else(|| Unsure::Unmeasured { why: self.extrapolates(problem) })?;
        let most = known.within_5_percent.last().map_or(0.0, |(_, share)| *share);
        let picks = known.picks_for(probability).ok_or(Unsure::OutOfReach { most, group: known.group })?;
        Ok(picks as usize)
    }

    /// The predicted time of each config. [`rank`] also corrects for the bias of picking the best.
    ///
    /// The library may be among the configs if the model predicts it.
    pub fn predict(&self, problem: &Problem, configs: &[Config]) -> Result<Vec<Micros>, ModelError> {
        if !problem.op.is_plain() {
            return self.serving_for(problem)?.predict(&self.metadata.hardware, problem, configs);
        }
        let features = self.features(problem)?;
        configs.iter().try_for_each(Config::validate)?;
        let is_library = |config: &&Config| config.is_library() && self.knows_library(config.rounds(problem));
        let tiled: Vec<Config> = configs.iter().filter(|config| !is_library(config)).copied().collect();
        let tiles = tiled.iter().map(featured_tile).collect::<Result<Vec<_>, _>>()?;
        let mut prepared = PreparedConfigs::new(self, &features, &tiles);
        let mut predicted = vec![Micros(0.0); tiled.len()];
        for one in prepared.all(self, &features, &tiled)? {
            predicted[one.tile] = Micros(one.us);
        }
        if tiled.len() == configs.len() {
            return Ok(predicted);
        }
        let mut predicted = predicted.into_iter();
        let mut times = Vec::with_capacity(configs.len());
        for config in configs {
            let time = if is_library(&config) {
                let rounds = config.rounds(problem);
                let space = if rounds { self.rounding_space(problem)? } else { self.space() };
                rank(self, problem, &space)?.library
            } else {
                predicted.next()
            };
            times.extend(time);
        }
        Ok(times)
    }

    /// The space whose configs are ranked if no space is given.
    pub fn space(&self) -> Space {
        Space::Named(SpaceName::Full)
    }

    /// The configs of [`Self::space`] for a problem in float32, all of which round to TF32.
    pub fn rounding_space(&self, problem: &Problem) -> Result<Space, ModelError> {
        let configs = self.space().configs(&self.metadata.hardware, problem)?;
        let rounding = |config: Config| config.rounding(true).for_k(problem.k);
        Ok(Space::List(configs.into_iter().map(rounding).collect()))
    }

    /// The features of configs on a problem.
    pub(crate) fn features(&self, problem: &Problem) -> Result<ProblemFeatures, ModelError> {
        let hardware = &self.metadata.hardware;
        let facts = hardware.facts.ok_or_else(|| ModelError::NoFacts { hardware: hardware.slug.clone() })?;
        let features = match self.second_method {
            false => ProblemFeatures::new(&facts, problem),
            true => ProblemFeatures::by_second_method(&facts, problem),
        };
        features.ok_or_else(|| ModelError::NoPeak {
            dtype: problem.a_dtype,
            hardware: hardware.slug.clone(),
            trained: self.metadata.dtypes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        })
    }

    /// The predicted time of the library. `best_us` is the predicted time of the best config, and `rounds` says
    /// whether both round to TF32. `None` if the model does not predict the library.
    pub(crate) fn library_us(
        &self,
        features: &ProblemFeatures,
        best_us: f64,
        rounds: bool,
    ) -> Result<Option<f64>, ModelError> {
        let Some(library) = self.library(rounds) else { return Ok(None) };
        let over_best = library.forward_row(&features.library_row(best_us, rounds));
        let us = best_us * f64::from(math::exp_of_one(over_best));
        if over_best.is_finite() && us.is_finite() {
            Ok(Some(us))
        } else {
            Err(ModelError::NotFinite { label: Config::Library.label() })
        }
    }
}

/// Predicts logarithms of times. A network with wrong inputs could predict times that no float can hold.
pub trait Predictor {
    /// The natural logarithm of the predicted time in µs of each config.
    fn predict_ln_us(&self, problem: &Problem, configs: &[Config]) -> Result<Vec<f64>, ModelError>;

    /// The rule by which the model makes picks, if it has one. Other models pick the first configs in the
    /// order of predicted times.
    fn shortlister(&self) -> Option<Box<dyn Shortlister + '_>> {
        None
    }

    /// The same model with times by another method, if it has learnt several.
    fn for_method(&self, _method: Method) -> Option<Box<dyn Predictor>> {
        None
    }

    /// The hardware that the model predicts for, if its file names it.
    fn hardware(&self) -> Option<&Hardware>;

    /// How the model was trained, if its file says so.
    fn training(&self) -> Option<&Training>;

    /// Figures for problems that the model was not trained on.
    fn evaluation(&self) -> Option<&EvaluationReport>;

    /// The number of weights that were learnt.
    fn parameters(&self) -> u64;
}

/// Makes picks for one problem after the other.
pub trait Shortlister {
    /// A part of the space that is enough for [`MOST_PICKS`](crate::MOST_PICKS) picks, with the best first,
    /// and the library's predicted time.
    fn shortlist(&mut self, problem: &Problem, space: &Space) -> Result<RankedSpace, ModelError>;
}

impl<M: Deref<Target = Model>> Shortlister for Ranker<M> {
    fn shortlist(&mut self, problem: &Problem, space: &Space) -> Result<RankedSpace, ModelError> {
        Ranker::shortlist(self, problem, space)
    }
}

impl Predictor for Model {
    fn predict_ln_us(&self, problem: &Problem, configs: &[Config]) -> Result<Vec<f64>, ModelError> {
        Ok(self.predict(problem, configs)?.into_iter().map(|time| libm::log(time.0)).collect())
    }

    fn shortlister(&self) -> Option<Box<dyn Shortlister + '_>> {
        Some(Box::new(Ranker::new(self)))
    }

    fn for_method(&self, method: Method) -> Option<Box<dyn Predictor>> {
        self.metadata().second_method.is_some().then(|| Box::new(self.for_method(method)) as _)
    }

    fn hardware(&self) -> Option<&Hardware> {
        Some(&self.metadata().hardware)
    }

    fn training(&self) -> Option<&Training> {
        Some(&self.metadata().training)
    }

    fn evaluation(&self) -> Option<&EvaluationReport> {
        self.metadata().evaluation.as_ref()
    }

    fn parameters(&self) -> u64 {
        self.parameters()
    }
}
