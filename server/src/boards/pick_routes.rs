//! The picks of a hardware's best model with the times that were measured, and how few configs are enough for many
//! problems.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use diode_api::query::from_text;
use diode_api::{CoverStep, MAX_PICKED, ModelSummary, Pick, Picks};
use diode_core::hardware::Hardware;
use diode_core::ids::{ModelId, ProblemId};
use diode_core::{Config, Invalid, Method, Micros, Problem};
use diode_model::{Model, Question, Ranker};
use quick_cache::sync::Cache;
use serde::Deserialize;

use crate::app::App;
use crate::blobs::BlobKind;
use crate::boards::consensus::{ConfigCache, Consensus};
use crate::http::{ApiFault, ApiResult, FromPath, StrictQuery};
use crate::page_cache::PageKey;
use crate::store::View;
use crate::uploads::solutions::StoredSolutions;

#[derive(Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct PicksQuery {
    /// How the times were taken that the picks are compared with.
    #[serde(deserialize_with = "from_text")]
    #[param(required = true)]
    method: Option<Method>,
    /// Ids of at most 50 problems, separated by commas.
    #[param(required = true)]
    problems: String,
}

impl PicksQuery {
    fn checked(&self) -> Result<(Method, Vec<ProblemId>), Invalid> {
        let expected = "how the times were taken, such as `median-cold-event`";
        let method = self.method.ok_or_else(|| Invalid::new("method", "nothing", expected))?;
        let problems: Vec<ProblemId> = self.problems.split(',').map(str::parse).collect::<Result<_, _>>()?;
        if problems.len() > MAX_PICKED {
            let given = format_args!("{} ids", problems.len());
            return Err(Invalid::new("problems", given, format!("at most {MAX_PICKED}")));
        }
        Ok((method, problems))
    }
}

/// The first pick of the hardware's best model for some problems, and its measured time. The model may have
/// been trained on these problems.
#[utoipa::path(
    get, operation_id = "get", path = "/hardware/{slug}/picks", tag = "hardware", params(("slug" = String, Path), PicksQuery),
    responses(
        (status = 200, body = Picks),
        (status = 304, description = "The client has it already"),
        (status = 503, description = "Too many such requests at once"),
    ),
)]
pub(crate) async fn picks(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<PicksQuery>,
    FromPath(hardware): FromPath<Hardware>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let (method, problems) = query.checked()?;
    let store = &app.backend.store;
    // Only published models count, because programs use no others.
    let models = store.models(Some(&hardware.slug), 0).await?;
    let Some(summary) = ModelSummary::best_for(&models, &hardware.slug) else {
        return Ok(Json(Picks { model: None, items: Vec::new() }).into_response());
    };
    let revision = store.hardware_revision(&hardware.slug).await?;
    let asked = ("picks", revision, &summary.id, method, &problems);
    let question = PageKey::new(hardware.slug.clone(), &asked);
    let make = compared(&app, &hardware, summary, method, &problems);
    app.pages.answer(&question, make).await?.reply(&headers)
}

/// The picks of a model for some problems, beside what was measured.
async fn compared(
    app: &App,
    hardware: &Hardware,
    summary: &ModelSummary,
    method: Method,
    problems: &[ProblemId],
) -> ApiResult<Picks> {
    let mut views = Vec::new();
    for id in problems {
        let view = View { hardware: hardware.slug.clone(), problem: id.clone(), method };
        if let Some(problem) = app.backend.store.problem(id).await? {
            views.push((views.len(), problem, view));
        }
    }
    let known = app.first_picks.known(&summary.id, method, views.iter().map(|(_, problem, _)| problem));
    let mut picks = known.unwrap_or_default();
    if picks.len() < views.len() {
        // The turn is taken before the model is read, so that memory holds the models of few requests.
        let _turn = app.picking().await.ok_or_else(|| {
            ApiFault::busy(
                "as many requests for picks are answered as the server takes; try again in a few seconds",
            )
        })?;
        let mut ranker = ranker(app, summary, method).await?;
        // The ranker prepares a space once for each run of problems of one kind.
        let mut sorted: Vec<(usize, Problem)> =
            views.iter().map(|(place, problem, _)| (*place, problem.clone())).collect();
        sorted.sort_by(|a, b| kind(&a.1).cmp(&kind(&b.1)));
        let ranked = tokio::task::spawn_blocking(move || {
            sorted
                .into_iter()
                .map(|(place, problem)| (place, first_pick(&mut ranker, &problem)))
                .collect::<Vec<_>>()
        });
        picks = vec![None; views.len()];
        for (place, pick) in ranked.await? {
            picks[place] = pick;
        }
        let problems = views.iter().map(|(_, problem, _)| problem);
        app.first_picks.keep(&summary.id, method, problems.zip(picks.iter().copied()));
    }
    let mut items = Vec::new();
    for ((_, _, view), picked) in views.into_iter().zip(picks) {
        let Some(picked) = picked else { continue };
        // Reads one problem at a time, so that memory holds the timings of only one.
        let stored = app.backend.store.view_solutions(&view).await?;
        let config_caches = app.config_caches.clone();
        let found = move || config_caches.with(|learnt| pick(picked, learnt, &view, &stored));
        items.extend(tokio::task::spawn_blocking(found).await?);
    }
    Ok(Picks { model: Some(summary.id.clone()), items })
}

/// What the configs of a problem depend on, beside its sizes.
fn kind(problem: &Problem) -> impl Ord {
    (problem.op, problem.a_dtype, problem.b_dtype, problem.a_layout, problem.b_layout)
}

/// The first pick of a model for a problem, and its predicted time. `None` for problems that the model cannot rank.
type FirstPick = Option<(Config, Micros)>;

/// How many first picks are kept: all problems of some models, in about 20 MB.
const MOST_KEPT: usize = 100_000;

/// First picks that were ranked before. A model's never change.
#[derive(Clone)]
pub(crate) struct KeptPicks(Arc<Cache<(ModelId, Method, ProblemId), FirstPick>>);

impl Default for KeptPicks {
    fn default() -> Self {
        Self(Arc::new(Cache::new(MOST_KEPT)))
    }
}

impl KeptPicks {
    /// The picks for all of some problems; `None` if one is not known.
    fn known<'p>(
        &self,
        model: &ModelId,
        method: Method,
        problems: impl Iterator<Item = &'p Problem>,
    ) -> Option<Vec<FirstPick>> {
        problems.map(|problem| self.0.get(&(model.clone(), method, problem.id()))).collect()
    }

    fn keep<'p>(
        &self,
        model: &ModelId,
        method: Method,
        picks: impl Iterator<Item = (&'p Problem, FirstPick)>,
    ) {
        for (problem, pick) in picks {
            self.0.insert((model.clone(), method, problem.id()), pick);
        }
    }
}

/// A ranker that predicts the times of one method by a model.
pub(crate) async fn ranker(
    app: &App,
    summary: &ModelSummary,
    method: Method,
) -> ApiResult<Ranker<Arc<Model>>> {
    let bytes = app.backend.blobs.get(BlobKind::Model, &summary.digest).await?;
    let read = move || Model::from_bytes(&bytes).map(|model| model.for_method(method));
    let model = tokio::task::spawn_blocking(read).await?.map_err(ApiFault::internal)?;
    Ok(Ranker::new(Arc::new(model)))
}

/// The config that a model picks first, and its predicted time. `None` for problems that the model cannot
/// rank.
pub(crate) fn first_pick(ranker: &mut Ranker<Arc<Model>>, problem: &Problem) -> FirstPick {
    let best = *ranker.answer(problem, &Question::default()).ok()?.picks.first()?;
    Some((best.config, best.alone))
}

/// `None` if nothing was measured.
fn pick(
    (config, Micros(predicted_us)): (Config, Micros),
    learnt: &mut ConfigCache,
    view: &View,
    stored: &StoredSolutions,
) -> Option<Pick> {
    stored.problems.get(&view.problem)?;
    let consensus = Consensus::of_stored(stored, learnt);
    // A config that rounds is faster because it computes something else, so it is no measure for one that does not.
    let is_alike = |other: &Config| other.rounds_to_tf32() == config.rounds_to_tf32();
    let best = consensus.leading().find(|agreed| is_alike(&agreed.config)).map(|agreed| agreed.time);
    let measured = consensus.configs.iter().find(|agreed| agreed.config == config).map(|agreed| agreed.time);
    Some(Pick {
        problem_id: view.problem.clone(),
        config,
        predicted_us,
        us: measured.map(|time| time.micros().0),
        share_of_best: best.zip(measured).map(|(best, time)| best.0 / time.0),
    })
}

/// A config covers a problem if its time is at most this much above the best.
const REACH: f64 = 0.05;

/// The loss of a problem while the list has no config for it: as if its time were e times the best time. A config
/// that is slower than that counts as no gain for the problem.
const NOTHING: f32 = 1.0;

/// Problems with the times of their configs, for [`Cover::steps`].
#[derive(Default)]
pub(crate) struct Cover {
    configs: Vec<Config>,
    numbers: HashMap<Config, u32>,
    /// For each config: the problems that it was timed on, with the logarithm of its time / the best time.
    losses: Vec<Vec<(u32, f32)>>,
    problems: u32,
}

impl Cover {
    pub(crate) fn problems(&self) -> u64 {
        self.problems.into()
    }

    /// Adds a problem with its Triton configs, the fastest first. A problem without configs is left out. So is a
    /// problem whose best time is zero: old databases have such times, from before the floor existed.
    pub(crate) fn add(&mut self, times: impl IntoIterator<Item = (Config, f64)>) {
        let mut times = times.into_iter().peekable();
        let Some(&(_, best)) = times.peek().filter(|(_, best)| *best > 0.0) else { return };
        for (config, time) in times {
            // Whether K is a multiple of the block, and whether float32 is rounded, depends on the problem and its
            // program, not on the config.
            let number = self.number(config.for_k(1).rounding(false));
            let losses = &mut self.losses[number as usize];
            if losses.last().is_none_or(|(problem, _)| *problem != self.problems) {
                losses.push((self.problems, (time / best).ln() as f32));
            }
        }
        self.problems += 1;
    }

    fn number(&mut self, config: Config) -> u32 {
        *self.numbers.entry(config).or_insert_with(|| {
            self.configs.push(config);
            self.losses.push(Vec::new());
            self.configs.len() as u32 - 1
        })
    }

    /// A list of at most `most` configs. Each is the config that covers the most problems that are still
    /// uncovered. Of several such configs, the list gets the config that makes the problems fastest. This takes
    /// long, so it must not run on an async thread.
    pub(crate) fn steps(&self, most: usize) -> Vec<CoverStep> {
        let mut least: Vec<Option<f32>> = vec![None; self.problems as usize];
        let mut sorted: Vec<usize> = (0..self.configs.len()).collect();
        // The order of configs breaks ties, so that the answer is always the same.
        sorted.sort_by_key(|&number| self.configs[number]);
        let gain = |place: usize, least: &[Option<f32>]| Candidate {
            gain: self.gain(sorted[place], least),
            place: Reverse(place),
        };
        let mut left: BinaryHeap<Candidate> = (0..sorted.len()).map(|place| gain(place, &least)).collect();
        let mut steps = Vec::new();
        while steps.len() < most {
            // A gain shrinks while the list grows, so an old gain is an upper bound. A config whose present gain
            // is at least as large as the old gains of all other configs is therefore the best one.
            let Some(first) = left.pop() else { break };
            let now = gain(first.place.0, &least);
            if left.peek().is_some_and(|next| *next > now) {
                left.push(now);
                continue;
            }
            if now.gain <= Gain::default() {
                break;
            }
            let number = sorted[now.place.0];
            for &(problem, loss) in &self.losses[number] {
                let least = &mut least[problem as usize];
                *least = Some(least.map_or(loss, |known| known.min(loss)));
            }
            steps.push(step(self.configs[number], &least));
        }
        steps
    }

    fn gain(&self, number: usize, least: &[Option<f32>]) -> Gain {
        let mut gain = Gain::default();
        for &(problem, loss) in &self.losses[number] {
            let known = least[problem as usize];
            gain.covered += u32::from(is_near(loss) && !known.is_some_and(is_near));
            gain.speed += (known.unwrap_or(NOTHING) - loss).max(0.0);
        }
        gain
    }
}

/// What a list gains from one more config.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
struct Gain {
    covered: u32,
    speed: f32,
}

/// A config that the list may get next. The larger gain comes first, then the first in order.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidate {
    gain: Gain,
    place: Reverse<usize>,
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        let speed = self.gain.speed.total_cmp(&other.gain.speed);
        self.gain.covered.cmp(&other.gain.covered).then(speed).then(self.place.cmp(&other.place))
    }
}

fn is_near(loss: f32) -> bool {
    loss <= REACH.ln_1p() as f32
}

fn step(config: Config, least: &[Option<f32>]) -> CoverStep {
    let timed: Vec<f32> = least.iter().copied().flatten().collect();
    let covered = timed.iter().filter(|loss| is_near(**loss)).count() as u64;
    let sum: f64 = timed.iter().map(|loss| f64::from(*loss)).sum();
    CoverStep {
        config,
        covered,
        share: covered as f64 / least.len() as f64,
        timed: timed.len() as u64,
        share_of_best: (-sum / timed.len() as f64).exp(),
    }
}

#[cfg(test)]
mod cover_tests {
    use diode_core::Tile;
    use proptest::prelude::*;

    use super::*;

    fn tile(number: u32) -> Config {
        Config::Mm(Tile::new(16 << number, 64, 32, 3, 4))
    }

    fn cover(problems: &[&[(u32, f64)]]) -> Cover {
        let mut cover = Cover::default();
        for times in problems {
            let mut times = times.to_vec();
            times.sort_by(|a, b| a.1.total_cmp(&b.1));
            cover.add(times.into_iter().map(|(number, time)| (tile(number), time)));
        }
        cover
    }

    #[test]
    fn the_config_that_covers_most_comes_first() {
        // Config 0 is best once. Config 1 is within 5 % three times. Config 2 is best where 1 is slow.
        let cover = cover(&[
            &[(0, 1.0), (1, 1.04), (2, 2.0)],
            &[(1, 1.0), (2, 1.5)],
            &[(1, 1.0), (0, 1.2)],
            &[(2, 1.0), (1, 1.5)],
        ]);
        let steps = cover.steps(32);
        let configs: Vec<Config> = steps.iter().map(|step| step.config).collect();
        assert_eq!(configs, [tile(1), tile(2), tile(0)]);
        let reached: Vec<(u64, u64)> = steps.iter().map(|step| (step.covered, step.timed)).collect();
        assert_eq!(reached, [(3, 4), (4, 4), (4, 4)]);
        let first = &steps[0];
        assert!((first.share - 0.75).abs() < 1e-12);
        assert!((first.share_of_best - (1.0 / 1.04 / 1.5_f64).powf(0.25)).abs() < 1e-6, "{first:?}");
        assert!((steps[2].share_of_best - 1.0).abs() < 1e-6);
        assert_eq!(cover.steps(1), steps[..1]);
    }

    #[test]
    fn a_config_is_one_whatever_the_k_of_its_problems_and_whether_it_rounds() {
        let mut cover = Cover::default();
        cover.add([(tile(0).for_k(64), 1.0)]);
        cover.add([(tile(0).for_k(65).rounding(true), 1.0), (tile(0).for_k(64), 3.0)]);
        cover.add([]);
        cover.add([(tile(0), 0.0), (tile(1), 1.0)]);
        let steps = cover.steps(32);
        assert_eq!((steps.len(), steps[0].covered, cover.problems()), (1, 2, 2));
        assert_eq!(Cover::default().steps(32), []);
    }

    proptest! {
        #[test]
        fn longer_lists_reach_more(times in prop::collection::vec(prop::collection::btree_map(0_u32..6, 1.0..3.0_f64, 1..6), 1..30)) {
            let problems: Vec<Vec<(u32, f64)>> = times.into_iter().map(|times| times.into_iter().collect()).collect();
            let refs: Vec<&[(u32, f64)]> = problems.iter().map(Vec::as_slice).collect();
            let steps = cover(&refs).steps(32);
            for pair in steps.windows(2) {
                prop_assert!(pair[0].covered <= pair[1].covered && pair[0].timed <= pair[1].timed);
            }
            // All configs together cover every problem.
            let last = steps.last().unwrap();
            prop_assert_eq!(last.covered, problems.len() as u64);
            prop_assert!((last.share_of_best - 1.0).abs() < 1e-5);
        }
    }
}
