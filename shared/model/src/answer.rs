//! The one answer to "what is best for this problem": which configs are ranked, which are picked in what order, how sure
//! that is, and what to doubt.
//!
//! The command line, the server, the browser and the wheel all ask here, and only present the answer.

use std::ops::Deref;

use diode_core::hardware::{Hardware, fits};
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, DType, Epilogue, Invalid, Micros, Problem, ProblemGroup};
use serde::{Deserialize, Serialize};

use crate::epilogue::{Decision, Verdict, Weighed, uncounted};
use crate::{Limits, MOST_PICKS, Model, ModelError, RankedSpace, Ranker};

/// What is asked besides the problem.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Question {
    /// How many picks are wanted.
    pub picks: usize,
    /// How many of the best other configs are wanted.
    pub near: usize,
    /// The configs to rank, in place of the model's own space.
    pub space: Option<SpaceName>,
    /// Whether float32 inputs are rounded to TF32.
    pub tf32: bool,
    pub epilogue: Epilogue,
    /// How many bytes of shared memory a block may use, if other than the hardware's.
    pub shared_memory: Option<u32>,
    /// Picks that are predicted to take longer than the best by more than this factor are left out.
    pub slowest: Option<f64>,
}

impl Default for Question {
    fn default() -> Self {
        Self {
            picks: 1,
            near: 0,
            space: None,
            tf32: false,
            epilogue: Epilogue::None,
            shared_memory: None,
            slowest: None,
        }
    }
}

/// The best configs for one problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub problem: Problem,
    /// The best stands first. With an epilogue of known costs, its time counts.
    pub picks: Vec<Weighed>,
    /// The best configs that were not picked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub near: Vec<Weighed>,
    /// The library kernel, picked or not, if the model predicts it.
    pub library: Option<Weighed>,
    /// Whether a tile or the library is better with the epilogue. `None` without one, or if its costs are unknown.
    pub verdict: Option<Verdict>,
    /// How many configs there were to choose from.
    pub considered: usize,
    /// Whether the configs round float32 to TF32.
    pub rounds: bool,
    /// How good such picks were. `None` where nobody has measured that.
    pub confidence: Option<Confidence>,
    /// A reason to doubt the predicted times.
    pub caveat: Option<String>,
    /// Why the times exclude the epilogue, if they do.
    pub uncounted: Option<String>,
}

/// How good picks were on problems of the same group that the model was not trained on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Confidence {
    /// On how many problems it was measured.
    pub problems: u64,
    /// For rising numbers of picks: the share of problems for which the best of these picks was within 5 % of the
    /// best config.
    pub within_5_percent: Vec<(u32, f64)>,
    /// For four problems in five, the measured time of the first pick, in µs, lies in this range.
    pub first_us: Option<(f64, f64)>,
}

impl Confidence {
    /// The share for the most picks that were judged, of at most `count`.
    pub fn for_picks(&self, count: usize) -> Option<f64> {
        let judged = self.within_5_percent.iter().rev().find(|(picks, _)| *picks as usize <= count);
        judged.map(|(_, share)| *share)
    }
}

impl<M: Deref<Target = Model>> Ranker<M> {
    /// Answers a question about a problem.
    pub fn answer(&mut self, problem: &Problem, question: &Question) -> Result<Answer, ModelError> {
        let model = self.model();
        fits(&model.metadata().hardware, problem)?;
        let space = match question.space {
            Some(name) => Space::Named(name),
            None if question.rounds(problem) => model.rounding_space(problem)?,
            None => model.space(),
        };
        // A space that the user names is ranked as it is.
        let is_own = question.space.is_none() || space == model.space();
        let own_limits = Limits::on_hardware(&model.metadata().hardware, problem, None, question.tf32);
        let limits =
            Limits::on_hardware(&model.metadata().hardware, problem, question.shared_memory, question.tf32);
        let are_narrower = limits.zip(own_limits).is_some_and(|(asked, own)| asked.are_narrower_than(&own));
        let ranked = self.ranked(problem, &space, limits.filter(|_| is_own), question.picks <= MOST_PICKS)?;
        let model = self.model();
        let picks = ranked.picks(question.picks);
        let mut answer = Answer::from_ranking(problem, &model.metadata().hardware, &ranked, picks, question)?;
        answer.caveat = model.caveat(problem, &ranked);
        // Confidence was measured for picks from the model's own space, without an epilogue.
        let is_measured = is_own && !are_narrower && !ranked.bounded && answer.verdict.is_none();
        if let Some(known) = model.confidence(problem, ranked.rounds()).filter(|_| is_measured) {
            let first = answer.picks.first().map(|pick| pick.alone.0);
            answer.confidence = Some(Confidence {
                problems: known.problems,
                within_5_percent: known.within_5_percent.clone(),
                first_us: first.map(|us| (us * known.time_range.0, us * known.time_range.1)),
            });
        }
        Ok(answer)
    }
}

impl Question {
    /// Whether the configs for a problem round float32 to TF32.
    pub(crate) fn rounds(&self, problem: &Problem) -> bool {
        self.tf32 && problem.a_dtype == DType::Float32
    }
}

impl Answer {
    /// An answer without confidence and caveat, from a ranking and the picks from it. The epilogue may change the
    /// picks and their order.
    pub fn from_ranking(
        problem: &Problem,
        hardware: &Hardware,
        ranked: &RankedSpace,
        mut picks: Vec<(Config, Micros)>,
        question: &Question,
    ) -> Result<Self, ModelError> {
        let Question { near, epilogue, slowest, .. } = *question;
        if ranked.configs.is_empty() {
            return Err(Invalid::new("space", "no config that fits the hardware", "at least one").into());
        }
        let alone = |(config, alone)| Weighed { config, alone, following: Micros(0.0) };
        let decision = Decision::new(ranked, hardware, problem, epilogue, question.picks);
        let (picks, near, library, verdict) = match decision {
            Some(Decision { mut best_first, verdict }) => {
                let library = best_first.iter().find(|one| one.config.is_library()).copied();
                let mut others = best_first.split_off(best_first.len().min(question.picks));
                others.truncate(near);
                (best_first, others, library, Some(verdict))
            }
            None => {
                if let Some(slowest) = slowest {
                    let best = picks.iter().map(|(_, time)| time.0).fold(f64::INFINITY, f64::min);
                    picks.retain(|(_, time)| time.0 <= best * slowest);
                }
                let near = if near == 0 { Vec::new() } else { ranked.near(&picks, near) };
                let library = ranked.library.map(|time| alone((ranked.library_config(), time)));
                (picks.into_iter().map(alone).collect(), near.into_iter().map(alone).collect(), library, None)
            }
        };
        Ok(Self {
            problem: problem.clone(),
            picks,
            near,
            library,
            verdict,
            considered: ranked.considered,
            rounds: ranked.rounds(),
            confidence: None,
            caveat: None,
            uncounted: uncounted(epilogue, hardware, problem),
        })
    }

    /// The group of the problem. Confidence is stated per group.
    pub fn group(&self) -> ProblemGroup {
        ProblemGroup::for_problem(&self.problem)
    }

    /// The first pick other than the library kernel.
    pub fn triton(&self) -> Option<&Weighed> {
        self.picks.iter().find(|pick| !pick.config.is_library())
    }

    /// The library's predicted time / the time of the first Triton pick.
    pub fn triton_over_library(&self) -> Option<f64> {
        Some(self.library?.total().0 / self.triton()?.total().0)
    }

    /// Whether the library is the first pick.
    pub fn picks_library(&self) -> bool {
        self.picks.first().is_some_and(|pick| pick.config.is_library())
    }
}
