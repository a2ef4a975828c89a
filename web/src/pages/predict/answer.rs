//! The ranking of one shape.

use std::sync::Arc;

use diode_core::api::ModelSummary;
use diode_core::hardware::{TooLarge, fits, roofline};
use diode_core::{Config, Micros, Problem, Tflops};
use diode_model::{Model, ModelError, RankedSpace, Ranker};
use leptos::prelude::*;

use super::address::{flags, shape_of};
use super::confidence::Confidence;
use super::fields::Fields;
use crate::components::{BarCell, Empty, Snippet};
use crate::format;
use crate::query::link;
use crate::ranking::{TF32_CAVEAT, rounds, shortlist};

/// How many candidates are shown.
const TOP: usize = 10;

/// The answer, which follows every key. While the fields are not a problem the
/// form says why.
#[component]
pub(super) fn Answer(fields: Fields, summary: ModelSummary, model: Arc<Model>) -> impl IntoView {
    // Kept between key presses, so that only what depends on the shape is computed again.
    let ranker = StoredValue::new(Ranker::new(Arc::clone(&model)));
    let problem = Memo::new(move |_| fields.problem().ok());
    let tf32 = Memo::new(move |_| !fields.tf32.with(String::is_empty));
    let answer = move || {
        let Some(problem) = problem.get() else {
            return view! { <Empty heading="Nothing to rank yet">"Correct the shape first."</Empty> }
                .into_any();
        };
        if let Err(error) = fits(&model.metadata().hardware, &problem) {
            return too_large(&error).into_any();
        }
        ranker.try_update_value(|ranker| ranked(&problem, &summary, &model, ranker, tf32.get())).into_any()
    };
    view! { <div class="section">{answer}</div> }
}

fn ranked(
    problem: &Problem,
    summary: &ModelSummary,
    model: &Model,
    ranker: &mut Ranker<Arc<Model>>,
    tf32: bool,
) -> impl IntoView + use<> {
    let clock = window().performance();
    let now = || clock.as_ref().map_or(0.0, |clock| clock.now());
    let started = now();
    let ranking = shortlist(model, ranker, problem, tf32);
    let took = now() - started;
    match ranking {
        Ok(ranking) => {
            ranking_view(problem, summary, model, &ranking, rounds(problem, tf32), took).into_any()
        }
        Err(error) => refused(&error).into_any(),
    }
}

fn too_large(error: &TooLarge) -> impl IntoView + use<> {
    view! {
        <div class="failure" role="alert" data-testid="too-large">
            <strong>"Too large for the hardware"</strong>
            <p>{format!("{error}.")}</p>
        </div>
    }
}

fn refused(error: &ModelError) -> impl IntoView + use<> {
    view! {
        <div class="failure" role="alert">
            <strong>"This model cannot rank that"</strong>
            <p>{error.to_string()}</p>
        </div>
    }
}

fn ranking_view(
    problem: &Problem,
    summary: &ModelSummary,
    model: &Model,
    ranking: &RankedSpace,
    rounds: bool,
    took_ms: f64,
) -> impl IntoView + use<> {
    let hardware = &model.metadata().hardware;
    let roof = hardware.facts.as_ref().and_then(|facts| roofline(facts, problem, rounds));
    let picks = ranking.picks(TOP);
    let best = picks.first().map(|(_, time)| *time);
    let rows = picks
        .iter()
        .zip(1..)
        .map(|((config, time), place)| row(place, config, *time, problem, best.unwrap_or(*time), roof));
    let caveat = model.caveat(problem, ranking).or_else(|| rounds.then(|| TF32_CAVEAT.to_owned()));
    let known = model.confidence(problem).filter(|_| caveat.is_none()).cloned();
    let count = format::counted(ranking.considered as u64, "config");
    view! {
        <section class="card answer" aria-live="polite">
            {picks.first().map(|(config, time)| headline(problem, config, *time, roof))}
            <p class="hint" data-testid="rank-time" data-rank-ms=format!("{took_ms:.3}")>
                {format!("ranked {count} for {} in {took_ms:.1} ms", hardware.name)}
            </p>
            {caveat.map(|caveat| view! { <p class="note" role="note">{caveat}</p> })}
        </section>
        <div class="table-box" tabindex="0">
            <table data-testid="candidates" data-problem=problem.dims()>
                <thead>
                    <tr>
                        <th>"Config"</th>
                        <th class="num">"Rank"</th>
                        <th class="num" title="The bar is speed relative to the first">"Predicted"</th>
                        <th class="num">"TFLOP/s"</th>
                        <th class="num" title="Roofline time / predicted time">"Roofline"</th>
                        <th class="num">"÷ first"</th>
                    </tr>
                </thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
        </div>
        {onward(problem, summary, rounds)}
        {known.map(|known| view! { <Confidence known /> })}
    }
}

fn rate(problem: &Problem, time: Micros) -> String {
    format::three_digits(Tflops::from_work(problem.flops(), time).0)
}

fn headline(problem: &Problem, config: &Config, time: Micros, roof: Option<Micros>) -> impl IntoView + use<> {
    let of_roof = roof.map(|roof| {
        format!(", {} of the roofline ({})", format::percent(roof.0 / time.0), format::time(roof.0))
    });
    let rate = format::rate_text(Tflops::from_work(problem.flops(), time).0);
    let rate = format!("{rate}{}", of_roof.unwrap_or_default());
    view! {
        <div class="answer-line">
            <span class="config">{config.label()}</span>
            <span class="time">{format::time(time.0)}</span>
            <span class="hint">{rate}</span>
        </div>
    }
}

fn row(
    place: usize,
    config: &Config,
    time: Micros,
    problem: &Problem,
    best: Micros,
    roof: Option<Micros>,
) -> impl IntoView + use<> {
    let label = config.label();
    let plain = label.replace('×', "x");
    let of_roof = roof.map_or_else(|| "–".to_owned(), |roof| format::percent(roof.0 / time.0));
    view! {
        <tr class:is-best=place == 1 data-config=plain data-predicted-us=time.0.to_string()>
            <td class="mono">{label}</td>
            <td class="num dim">{place}</td>
            <BarCell text=format::time(time.0) share=best.0 / time.0 />
            <td class="num">{rate(problem, time)}</td>
            <td class="num">{of_roof}</td>
            <td class="num dim">{format::factor(time.0 / best.0)}</td>
        </tr>
    }
}

/// The same on the command line, which has no TF32, and what was measured.
fn onward(problem: &Problem, summary: &ModelSummary, rounds: bool) -> impl IntoView + use<> {
    let hardware = [("hardware", summary.hardware.to_string())];
    // The shape too: if nobody has measured it, that page leads back to it.
    let measured =
        link(&format!("/problems/{}", problem.id()), hardware.into_iter().chain(shape_of(problem)));
    let command = format!("diode predict --model {} {}", summary.file_name, flags(problem));
    view! {
        {(!rounds).then(|| view! { <Snippet text=command /> })}
        <p class="row hint">
            <a href=measured>"What was measured for this problem"</a>
            <a href=format!("/models/{}", summary.id)>"About this model"</a>
        </p>
    }
}
