//! Ranks a list a few shapes at a time, so that the page answers meanwhile.

use std::sync::Arc;
use std::time::Duration;

use diode_core::hardware::fits;
use diode_core::{Config, Problem};
use diode_model::{Model, Ranker};
use leptos::prelude::*;

use super::parse::Line;

/// How long the page may be kept waiting. At 60 frames a second, each has 16 ms.
const TURN_MS: f64 = 10.0;
/// How many configs of each shape are kept, as in the server's tables.
const PICKS: usize = 5;

/// What is predicted for one shape.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ranked {
    pub(super) problem: Problem,
    /// The picks and their predicted times in microseconds, the best first.
    pub(super) picks: Vec<(Config, f64)>,
    /// The predicted time of the library.
    pub(super) library: Option<f64>,
    /// What is wrong with the times.
    pub(super) caveat: Option<String>,
}

/// The outcome of one line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) number: usize,
    pub(super) outcome: Result<Ranked, String>,
}

/// Ranks all lines and hands over the rows of each turn. It ends early when `arrive` returns false.
pub(super) fn work(model: Arc<Model>, lines: Vec<Line>, arrive: impl Fn(Vec<Row>) -> bool + 'static) {
    let ranker = Ranker::new(Arc::clone(&model));
    turn(Job { model, ranker, lines: lines.into_iter() }, arrive);
}

struct Job {
    model: Arc<Model>,
    ranker: Ranker<Arc<Model>>,
    lines: std::vec::IntoIter<Line>,
}

fn turn(mut job: Job, arrive: impl Fn(Vec<Row>) -> bool + 'static) {
    let started = js_sys::Date::now();
    let mut rows = Vec::new();
    while js_sys::Date::now() - started < TURN_MS {
        let Some(Line { number, problem }) = job.lines.next() else { break };
        let outcome = problem.and_then(|problem| ranked(&job.model, &mut job.ranker, problem));
        rows.push(Row { number, outcome });
    }
    let goes_on = job.lines.len() > 0;
    if arrive(rows) && goes_on {
        set_timeout(move || turn(job, arrive), Duration::ZERO);
    }
}

fn ranked(model: &Model, ranker: &mut Ranker<Arc<Model>>, problem: Problem) -> Result<Ranked, String> {
    fits(&model.metadata().hardware, &problem).map_err(|error| error.to_string())?;
    let ranked = ranker.shortlist(&problem, &model.space()).map_err(|error| error.to_string())?;
    let picks = ranked.picks(PICKS).into_iter().map(|(config, time)| (config, time.0)).collect();
    let caveat = model.caveat(&problem, &ranked);
    Ok(Ranked { problem, picks, library: ranked.library.map(|time| time.0), caveat })
}
