//! The one answer to "what is best for this problem": which configs are ranked, which are picked in what order, how sure
//! that is, and what to doubt.
//!
//! The command line, the server, the browser and the wheel all ask here, and only present the answer.

use std::ops::Deref;

use diode_core::hardware::{Hardware, fits};
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, DType, Epilogue, Invalid, Layout, Micros, Op, Problem, ProblemGroup};
use serde::{Deserialize, Serialize};

use crate::epilogue::{Costs, Decision, Following, Verdict, Weighed, uncounted};
use crate::serving::put_first;
use crate::{Forms, Limits, MOST_PICKS, Metadata, Model, ModelError, RankedSpace, Ranker};

/// What is asked besides the problem.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an answer of its own to a question of its own")]
pub struct Question<'a> {
    /// How many picks are wanted.
    pub picks: usize,
    /// How many of the best other configs are wanted.
    pub near: usize,
    /// The configs to rank, in place of the model's own space.
    pub space: Option<SpaceName>,
    /// Whether float32 inputs are rounded to TF32.
    pub tf32: bool,
    /// Whether the library rounds them, if it does so where tiles do not.
    pub library_tf32: bool,
    pub epilogue: Epilogue,
    /// What follows in a graph, in place of `epilogue`.
    pub following: Option<&'a Following>,
    /// Whether the first pick runs without a benchmark beside the library. Then a tile must beat the library by the doubt about
    /// it also where nothing follows, and must compile soon. Other callers show times, and the confidence beside them was measured
    /// in the order of these times. So their order does not depend on the doubt, unless an epilogue follows.
    pub alone: bool,
    /// Whether a tile may run alone for kinds of problems on which nobody has judged the model.
    pub untried: bool,
    /// The forms of tiles that can run. Only scaled and grouped problems have swapped ones.
    pub forms: Forms,
    /// How many bytes of shared memory a block may use, if other than the hardware's.
    pub shared_memory: Option<u32>,
    /// Picks that are predicted to take longer than the best by more than this factor are left out.
    pub slowest: Option<f64>,
}

impl Default for Question<'_> {
    fn default() -> Self {
        Self {
            picks: 1,
            near: 0,
            space: None,
            tf32: false,
            library_tf32: false,
            epilogue: Epilogue::None,
            following: None,
            alone: false,
            untried: false,
            forms: Forms::ALL,
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
    /// Why the first pick is the first.
    pub why: String,
    /// Why nobody knows how good the picks are. Then no tile may run alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<String>,
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
    pub fn answer(&mut self, problem: &Problem, question: &Question<'_>) -> Result<Answer, ModelError> {
        let model = self.model();
        fits(&model.metadata().hardware, problem)?;
        if !problem.op.is_plain() {
            return model.answer_serving(problem, question);
        }
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
        answer.unjudged = question.unjudged(problem, model, answer.caveat.is_none());
        // Confidence was measured for picks from the model's own space, without an epilogue.
        let is_followed = answer.verdict.is_some()
            || question.following.is_some_and(|_| Costs::for_hardware(&model.metadata().hardware).is_some());
        let is_measured = is_own && !are_narrower && !ranked.bounded && !is_followed;
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

impl Model {
    /// Answers a question about a scaled, grouped or experts problem. Its space is one list, whatever is asked.
    fn answer_serving(&self, problem: &Problem, question: &Question<'_>) -> Result<Answer, ModelError> {
        let serving = self.serving_for(problem)?;
        let hardware = &self.metadata().hardware;
        let is_limited = question.shared_memory.is_some() || question.forms != Forms::ALL;
        let limits = is_limited
            .then(|| Limits::on_hardware(hardware, problem, question.shared_memory, false))
            .flatten()
            .map(|limits| limits.for_forms(question.forms));
        let all = question.picks > MOST_PICKS;
        let ranked = serving.rank(hardware, &[problem], limits, all)?;
        let mut picks = ranked.picks(question.picks);
        let (untuned, keeps) = serving.keeps(hardware, &[problem], &ranked)?;
        if let Some(kept) = untuned
            .filter(|(config, _)| keeps && limits.is_none_or(|limits| limits.obstacle(config).is_none()))
        {
            put_first(&mut picks, kept);
        }
        let mut answer = Answer::from_ranking(problem, hardware, &ranked, picks, question)?;
        if keeps {
            "vLLM's default: nothing is predicted to be clearly faster".clone_into(&mut answer.why);
        }
        let stands_in_from = self.metadata().stands_in_from.as_ref();
        answer.caveat = serving.caveat(hardware, stands_in_from, problem);
        let is_known = answer.caveat.is_none();
        answer.unjudged = question.unjudged(problem, self, is_known);
        let is_measured = is_known && limits.is_none() && !ranked.bounded && answer.verdict.is_none();
        if let Some(known) = serving.figures(problem).filter(|_| is_measured) {
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

impl Question<'_> {
    /// Whether the configs for a problem round float32 to TF32.
    pub(crate) fn rounds(&self, problem: &Problem) -> bool {
        self.tf32 && problem.a_dtype == DType::Float32
    }

    /// Why nobody knows how good picks are that run alone. `None` if that was measured or does not matter.
    fn unjudged(&self, problem: &Problem, model: &Model, is_known: bool) -> Option<String> {
        if !self.alone || self.untried {
            return None;
        }
        let Metadata { hardware, ops, dtypes, stands_in_from, .. } = model.metadata();
        let slug = &hardware.slug;
        let library_rounds = self.library_tf32 && problem.a_dtype == DType::Float32;
        if library_rounds && !model.knows_library(true) {
            return Some(format!(
                "the file of the model of {slug} does not say whether it was judged on TF32"
            ));
        }
        if library_rounds && !self.rounds(problem) {
            return Some("the library computes such sizes in TF32, and tiles do not".to_owned());
        }
        // Whoever lets a model stand in trusts it with the kinds of problems that it was judged on for its own hardware.
        let is_judged = match stands_in_from {
            Some(_) => ops.contains(&problem.op) && dtypes.contains(&problem.a_dtype),
            None => is_known,
        };
        if !is_judged {
            return Some(format!("the model of {slug} was not judged on such problems"));
        }
        (problem.op == Op::Addmm && rows_begin_off_a_sector(problem)).then(|| {
            format!(
                "the model of {slug} was judged on few linear layers whose weights' rows begin off a sector"
            )
        })
    }
}

/// Whether rows of B are aligned but begin inside a sector of memory. On an H200, tiles then take up to 1.3 times as long.
/// Rows that are not aligned are another kind of problem.
fn rows_begin_off_a_sector(problem: &Problem) -> bool {
    const SECTOR_BYTES: u64 = 32;
    const ALIGNED_BYTES: u64 = 16;
    let bytes_of_row = problem.k * problem.b_dtype.size();
    problem.b_layout == Layout::Column
        && bytes_of_row.is_multiple_of(ALIGNED_BYTES)
        && !bytes_of_row.is_multiple_of(SECTOR_BYTES)
}

impl Answer {
    /// An answer without confidence and caveat, from a ranking and the picks from it. The epilogue may change the
    /// picks and their order.
    pub fn from_ranking(
        problem: &Problem,
        hardware: &Hardware,
        ranked: &RankedSpace,
        mut picks: Vec<(Config, Micros)>,
        question: &Question<'_>,
    ) -> Result<Self, ModelError> {
        let Question { near, epilogue, slowest, .. } = *question;
        if ranked.configs.is_empty() {
            return Err(Invalid::new("space", "no config that fits the hardware", "at least one").into());
        }
        let alone = |(config, alone)| Weighed { config, alone, following: Micros(0.0) };
        let mut why = format!("predicted fastest of {} configs and the library", ranked.considered);
        let (picks, near, library, verdict) = match Decision::new(ranked, hardware, problem, question) {
            Some(Decision { mut best_first, verdict, why: other }) => {
                why = other.unwrap_or(why);
                let library = best_first.iter().find(|one| one.config.is_library()).copied();
                let mut others = best_first.split_off(best_first.len().min(question.picks));
                others.truncate(near);
                (best_first, others, library, verdict)
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
            why,
            unjudged: None,
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

    /// The best tile, picked or near, with the time of what follows.
    pub fn tile(&self) -> Option<&Weighed> {
        self.picks.iter().chain(&self.near).find(|one| !one.config.is_library())
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
