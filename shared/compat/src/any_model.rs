//! A model of any type.

use diode_api::EvaluationReport;
use diode_core::hardware::{Hardware, find, fits};
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, Invalid, Method, Micros, Problem};
use diode_model::file::names_architecture;
use diode_model::metadata::Training;
use diode_model::{
    Answer, Confidence, Limits, Model, ModelError, Predictor, Question, RankedSpace, Ranker, Shortlister,
    rank,
};

use crate::model::PredecessorModel;

/// The hardware that torch-diode trained its models on. Their files do not name it.
const PREDECESSOR_HARDWARE: &str = "nvidia-h100";

/// A model of any type.
#[derive(Debug, Clone, PartialEq)]
pub enum AnyModel {
    /// Our ranking network.
    Ranking(Box<Model>),
    /// One of torch-diode's networks.
    Predecessor(Box<PredecessorModel>),
}

impl AnyModel {
    /// Reads a model file in our format.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        if names_architecture(bytes) {
            PredecessorModel::from_bytes(bytes).map(Box::new).map(Self::Predecessor)
        } else {
            Model::from_bytes(bytes).map(Box::new).map(Self::Ranking)
        }
    }

    /// The model file. The same model always gives the same bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ModelError> {
        match self {
            Self::Ranking(model) => model.to_bytes(),
            Self::Predecessor(model) => model.to_bytes(),
        }
    }

    fn predictor(&self) -> &dyn Predictor {
        match self {
            Self::Ranking(model) => &**model,
            Self::Predecessor(model) => &**model,
        }
    }

    /// The ranking network, if the model is one.
    pub fn as_ranking(&self) -> Option<&Model> {
        match self {
            Self::Ranking(model) => Some(model),
            Self::Predecessor(_) => None,
        }
    }

    /// The name of the model's type, for lists of models.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Ranking(_) => "ranking",
            Self::Predecessor(model) => model.architecture().kind(),
        }
    }

    /// The space whose configs are ranked if no space is given.
    pub fn space(&self) -> Space {
        Space::Named(SpaceName::Full)
    }

    /// The hardware whose configs are ranked: the model's own. Models from torch-diode name none;
    /// theirs is the hardware on which torch-diode trained them.
    pub fn ranked_hardware(&self) -> Result<Hardware, ModelError> {
        match self.hardware() {
            Some(hardware) => Ok(hardware.clone()),
            None => find(PREDECESSOR_HARDWARE).ok_or_else(|| {
                Invalid::new("hardware", PREDECESSOR_HARDWARE, "a name of the catalogue").into()
            }),
        }
    }

    /// In one sentence, what readers of a prediction should be warned of.
    fn caveat(&self, problem: &Problem) -> Option<String> {
        match self {
            Self::Ranking(model) => model.extrapolates(problem),
            Self::Predecessor(model) if model.metadata().is_none() => Some(format!(
                "This file of torch-diode's does not say which hardware it speaks of; {PREDECESSOR_HARDWARE} is taken, \
                 on which its models were trained."
            )),
            Self::Predecessor(_) => None,
        }
    }

    /// Answers a question about a problem.
    pub fn answer(&self, problem: &Problem, question: &Question<'_>) -> Result<Answer, ModelError> {
        if let Self::Ranking(model) = self {
            return Ranker::new(&**model).answer(problem, question);
        }
        let hardware = self.ranked_hardware()?;
        fits(&hardware, problem)?;
        let mut configs =
            question.space.map_or_else(|| self.space(), Space::Named).configs(&hardware, problem)?;
        let limits = Limits::on_hardware(&hardware, problem, question.shared_memory, question.tf32);
        if let Some(limits) = limits.filter(|_| question.space.is_none()) {
            configs.retain(|config| limits.obstacle(config).is_none());
        }
        let ranked = self.rank(problem, &Space::List(configs))?;
        let picks = ranked.configs.iter().take(question.picks).copied().collect();
        let mut answer = Answer::from_ranking(problem, &hardware, &ranked, picks, question)?;
        answer.caveat = self.caveat(problem);
        let share = |(picks, share): (&String, &f64)| Some((picks.parse().ok()?, *share));
        answer.confidence = self.evaluation().map(|report| Confidence {
            problems: report.problems as u64,
            within_5_percent: report.within_5_percent.iter().filter_map(share).collect(),
            first_us: None,
        });
        Ok(answer)
    }

    /// Every config of a space, with the best first.
    pub fn rank(&self, problem: &Problem, space: &Space) -> Result<RankedSpace, ModelError> {
        let model = match self {
            Self::Ranking(model) => return rank(model, problem, space),
            Self::Predecessor(model) => model,
        };
        let configs = space.configs(&self.ranked_hardware()?, problem)?;
        let predicted = model.predict_ln_us(problem, &configs)?;
        let mut ranked: Vec<(Config, Micros)> =
            configs.into_iter().zip(predicted).map(|(config, ln)| (config, Micros(libm::exp(ln)))).collect();
        ranked.sort_unstable_by(|a, b| a.1.0.total_cmp(&b.1.0).then_with(|| a.0.cmp(&b.0)));
        Ok(RankedSpace::new(ranked, None, 1.0))
    }
}

impl Predictor for AnyModel {
    fn predict_ln_us(&self, problem: &Problem, configs: &[Config]) -> Result<Vec<f64>, ModelError> {
        self.predictor().predict_ln_us(problem, configs)
    }

    fn shortlister(&self) -> Option<Box<dyn Shortlister + '_>> {
        self.predictor().shortlister()
    }

    fn for_method(&self, method: Method) -> Option<Box<dyn Predictor>> {
        self.predictor().for_method(method)
    }

    fn hardware(&self) -> Option<&Hardware> {
        self.predictor().hardware()
    }

    fn training(&self) -> Option<&Training> {
        self.predictor().training()
    }

    fn evaluation(&self) -> Option<&EvaluationReport> {
        self.predictor().evaluation()
    }

    fn parameters(&self) -> u64 {
        self.predictor().parameters()
    }
}
