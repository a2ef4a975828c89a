//! Ranks some shapes on the page's own thread, a few at a time, so that the page can answer in between. A worker ranks
//! long lists (`pages/list/at_work.rs`).

use std::sync::Arc;
use std::time::Duration;

use diode_core::Epilogue;
use diode_model::Model;
use diode_ranking::{Line, Ranking, Row};
use leptos::prelude::*;

/// How long a turn of ranking may block the page, so that it answers while the reader types.
const TURN_MS: f64 = 10.0;

/// Ranks all lines, and passes the rows of each turn to `arrive`. Ends early when `arrive` returns false.
pub(crate) fn rank_in_turns(
    model: Arc<Model>,
    lines: Vec<Line>,
    tf32: bool,
    epilogue: Epilogue,
    arrive: impl Fn(Vec<Row>) -> bool + 'static,
) {
    turn(Ranking::new(model, tf32, epilogue), lines.into_iter(), arrive);
}

fn turn(
    mut ranking: Ranking,
    mut lines: std::vec::IntoIter<Line>,
    arrive: impl Fn(Vec<Row>) -> bool + 'static,
) {
    let started = js_sys::Date::now();
    let mut rows = Vec::new();
    while js_sys::Date::now() - started < TURN_MS {
        let Some(line) = lines.next() else { break };
        rows.push(ranking.row(line));
    }
    let goes_on = lines.len() > 0;
    if arrive(rows) && goes_on {
        set_timeout(move || turn(ranking, lines, arrive), Duration::ZERO);
    }
}
