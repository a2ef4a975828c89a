//! Ranks configs with a model: of one shape at once, of many a few at a time, so that the page answers meanwhile.

use std::sync::Arc;
use std::time::Duration;

use diode_core::hardware::{Hardware, fits};
use diode_core::space::Space;
use diode_core::{Config, DType, Epilogue, Micros, Problem, Tile};
use diode_model::epilogue::{Decision, Verdict, Weighed};
use diode_model::{Model, ModelError, RankedSpace, Ranker};
use leptos::prelude::*;

use crate::turns::TURN_MS;

/// How many configs of each shape are kept, as in the server's tables.
const PICKS: usize = 5;

/// What is said of times of configs that round to TF32.
pub(crate) const TF32_CAVEAT: &str = "These configs round float32 to TF32. The model does not know the library's time there, and its file does not say how good its picks are.";

/// What one line of a list says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    /// From 1, as editors count.
    pub(crate) number: usize,
    /// The problem, or what is wrong with the line.
    pub(crate) problem: Result<Problem, String>,
}

/// What is predicted for one shape.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ranked {
    pub(crate) problem: Problem,
    /// The picks, the best first.
    pub(crate) picks: Vec<Weighed>,
    pub(crate) library: Option<Weighed>,
    /// With an epilogue that is counted.
    pub(crate) verdict: Option<Verdict>,
    /// What is wrong with the times.
    pub(crate) caveat: Option<String>,
}

impl Ranked {
    /// The first pick that is no library kernel, and its predicted time in microseconds.
    pub(crate) fn triton(&self) -> Option<(Config, f64)> {
        let first = self.picks.iter().find(|pick| !pick.config.is_library())?;
        Some((first.config, first.total().0))
    }
}

/// The outcome of one line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) number: usize,
    pub(crate) outcome: Result<Ranked, String>,
}

/// Whether configs round a problem's inputs to TF32, where the reader allows it.
pub(crate) fn rounds(problem: &Problem, tf32: bool) -> bool {
    tf32 && problem.a_dtype == DType::Float32
}

/// The best configs of a model's own space; with `tf32`, those of float32 round to TF32.
pub(crate) fn shortlist(
    model: &Model,
    ranker: &mut Ranker<Arc<Model>>,
    problem: &Problem,
    tf32: bool,
) -> Result<RankedSpace, ModelError> {
    if !rounds(problem, tf32) {
        return ranker.shortlist(problem, &model.space());
    }
    let configs = model.space().configs(&model.metadata().hardware, problem)?;
    let rounding = configs.into_iter().map(|config| rounding(config).for_k(1)).collect();
    let ranked = ranker.shortlist(problem, &Space::List(rounding))?;
    let configs = ranked.configs.into_iter().map(|(config, time)| (config.for_k(problem.k), time)).collect();
    // The library's predicted time is that of float32 in full.
    let mut rounded = RankedSpace::new(configs, None, 1.0);
    (rounded.considered, rounded.bounded) = (ranked.considered, ranked.bounded);
    Ok(rounded)
}

/// The first `count` of a ranking and the library, with an epilogue where its costs are known.
pub(crate) fn followed(
    ranked: &RankedSpace,
    hardware: &Hardware,
    problem: &Problem,
    epilogue: Epilogue,
    count: usize,
) -> (Vec<Weighed>, Option<Weighed>, Option<Verdict>) {
    if let Some(Decision { mut best_first, verdict }) =
        Decision::of(ranked, hardware, problem, epilogue, count)
    {
        let library = best_first.iter().find(|one| one.config.is_library()).copied();
        best_first.truncate(count);
        return (best_first, library, Some(verdict));
    }
    let alone = |(config, alone)| Weighed { config, alone, following: Micros(0.0) };
    let picks = ranked.picks(count).into_iter().map(alone).collect();
    (picks, ranked.library.map(|time| alone((Config::Library, time))), None)
}

fn rounding(config: Config) -> Config {
    let rounding = |tile: Tile| Tile { allow_tf32: true, ..tile };
    match config {
        Config::Mm(tile) => Config::Mm(rounding(tile)),
        Config::Bmm(tile) => Config::Bmm(rounding(tile)),
        other => other,
    }
}

/// Ranks all lines and hands over the rows of each turn. It ends early when `arrive` returns false.
pub(crate) fn work(
    model: Arc<Model>,
    lines: Vec<Line>,
    tf32: bool,
    epilogue: Epilogue,
    arrive: impl Fn(Vec<Row>) -> bool + 'static,
) {
    let ranker = Ranker::new(Arc::clone(&model));
    turn(Job { model, ranker, tf32, epilogue, lines: lines.into_iter() }, arrive);
}

struct Job {
    model: Arc<Model>,
    ranker: Ranker<Arc<Model>>,
    tf32: bool,
    epilogue: Epilogue,
    lines: std::vec::IntoIter<Line>,
}

impl Job {
    fn ranked(&mut self, problem: Problem) -> Result<Ranked, String> {
        let Self { model, ranker, tf32, epilogue, .. } = self;
        let hardware = &model.metadata().hardware;
        fits(hardware, &problem).map_err(|error| error.to_string())?;
        let ranked = shortlist(model, ranker, &problem, *tf32).map_err(|error| error.to_string())?;
        let (picks, library, verdict) = followed(&ranked, hardware, &problem, *epilogue, PICKS);
        let caveat = model.caveat(&problem, &ranked);
        let caveat = caveat.or_else(|| rounds(&problem, *tf32).then(|| TF32_CAVEAT.to_owned()));
        Ok(Ranked { problem, picks, library, verdict, caveat })
    }
}

fn turn(mut job: Job, arrive: impl Fn(Vec<Row>) -> bool + 'static) {
    let started = js_sys::Date::now();
    let mut rows = Vec::new();
    while js_sys::Date::now() - started < TURN_MS {
        let Some(Line { number, problem }) = job.lines.next() else { break };
        let outcome = problem.and_then(|problem| job.ranked(problem));
        rows.push(Row { number, outcome });
    }
    let goes_on = job.lines.len() > 0;
    if arrive(rows) && goes_on {
        set_timeout(move || turn(job, arrive), Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tiles_round() {
        let tile = Tile::new(64, 64, 32, 3, 4);
        assert!(rounding(Config::Mm(tile)).rounds_to_tf32() && rounding(Config::Bmm(tile)).rounds_to_tf32());
        assert_eq!(rounding(Config::Library), Config::Library);
    }
}
