//! The ranking of one shape, and how reliable it is.

use std::sync::Arc;

use diode_api::{KernelResult, ModelSummary, NearestProblem, ProblemFilter};
use diode_core::hardware::{Hardware, Vendor, roofline};
use diode_core::{Epilogue, Micros, Problem, ProblemGroup, Tflops};
use diode_model::epilogue::{Verdict, Weighed};
use diode_model::{Answer as Answered, Confidence as Known, Model, ModelError, Question, Ranker};
use leptos::prelude::*;

use crate::components::{Bar, BarCell, Best, Deferred, Nearest, Snippet, empty, legend};
use crate::format;
use crate::pages::config_line;
use crate::pages::predict::fields::Fields;
use crate::pages::predict::fields::{flags, shape_of};
use crate::query::{link, problem_page};
use crate::scheduler::defer;

/// The number of candidates that are shown.
const TOP: usize = 10;

/// Says why the order is not that of the times, where it is not.
const RANK: &str = "Try them in this order. It differs from that of the predicted times where the library is concerned: its time counts \
    for a little more or less, by how often it was picked wrongly on problems that the model had not learnt.";

/// The settings besides the shape.
#[derive(Clone, Copy, PartialEq)]
struct Asked {
    tf32: bool,
    epilogue: Epilogue,
}

/// The answer. It is updated at every key. While the fields describe no problem, the form says why.
#[component]
pub(super) fn Answer(
    fields: Fields,
    summary: ModelSummary,
    model: Arc<Model>,
    nearest: Nearest,
) -> impl IntoView {
    // The ranker is kept between keys, so that only the parts that depend on the shape are computed again.
    let ranker = StoredValue::new(Ranker::new(Arc::clone(&model)));
    let problem = Memo::new(move |_| fields.problem().ok());
    let asked = Memo::new(move |_| {
        let tf32 = !fields.tf32.with(String::is_empty);
        Some(Asked { tf32, epilogue: fields.epilogue().ok()? })
    });
    // The first ranking prepares the configs. On a slow computer this takes long, so it gets a turn of its
    // own.
    defer(move || {
        let wanted = problem.try_get_untracked().flatten().zip(asked.try_get_untracked().flatten());
        let Some((problem, asked)) = wanted else { return };
        ranker.try_update_value(|ranker| {
            // Errors are shown with the answer, which computes the same again.
            let _ = ranker.answer(&problem, &asked.question());
        });
    });
    let answer = move || {
        let Some((problem, asked)) = problem.get().zip(asked.get()) else {
            return empty("Nothing to rank yet", "Correct the shape first.");
        };
        ranker
            .try_update_value(|ranker| ranked(&problem, &summary, &model, ranker, asked, nearest))
            .into_any()
    };
    view! {
        <div class="section">
            <Deferred height="48rem">{answer.clone()}</Deferred>
        </div>
    }
}

impl Asked {
    fn question(self) -> Question<'static> {
        Question { picks: TOP, tf32: self.tf32, epilogue: self.epilogue, ..Question::default() }
    }
}

fn ranked(
    problem: &Problem,
    summary: &ModelSummary,
    model: &Model,
    ranker: &mut Ranker<Arc<Model>>,
    asked: Asked,
    nearest: Nearest,
) -> impl IntoView + use<> {
    let clock = window().performance();
    let now = || clock.as_ref().map_or(0.0, |clock| clock.now());
    let started = now();
    let answer = ranker.answer(problem, &asked.question());
    let took = now() - started;
    match answer {
        Ok(answer) => ranking_view(answer, summary, model, asked, took, nearest).into_any(),
        Err(error @ ModelError::TooLargeForHardware(_)) => too_large(&error).into_any(),
        Err(error) => refused(&error).into_any(),
    }
}

fn too_large(error: &ModelError) -> impl IntoView + use<> {
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
    answer: Answered,
    summary: &ModelSummary,
    model: &Model,
    asked: Asked,
    took_ms: f64,
    nearest: Nearest,
) -> impl IntoView + use<> {
    let hardware = &model.metadata().hardware;
    let group = answer.group();
    let problem = answer.problem.clone();
    let is_measured = Signal::derive(move || {
        nearest.of(&problem).is_some_and(|near| near.iter().any(|near| near.problem == problem))
    });
    let card = {
        let (answer, hardware) = (answer.clone(), hardware.clone());
        move || match (nearest.of(&answer.problem), asked.epilogue) {
            (Some(near), Epilogue::None) => {
                match measured(&hardware, &near, &answer.problem, answer.rounds) {
                    Some(card) => card,
                    None => Best::predicted(&hardware, &answer, &alike(&near, &answer.problem))
                        .card(advice(&answer)),
                }
            }
            _ => Best::predicted(&hardware, &answer, &[]).card(advice(&answer)),
        }
    };
    let Answered { problem, picks, verdict, considered, rounds, confidence, caveat, uncounted, .. } = answer;
    let problem = &problem;
    // The roofline is of the multiplication alone, so none is shown with an epilogue.
    let facts = hardware.facts.as_ref().filter(|_| verdict.is_none());
    let roof = facts.and_then(|facts| roofline(facts, problem, rounds));
    let vendor = hardware.vendor;
    let shown =
        Shown { problem, vendor, best: picks.first().map_or(Micros(0.0), Weighed::total), roof, verdict };
    let last = shown.last();
    let in_order = picks.is_sorted_by(|a, b| a.total().0 <= b.total().0);
    let rows = picks.iter().zip(1..).map(|(pick, place)| shown.row(place, pick));
    let notes = [caveat, uncounted].into_iter().flatten();
    let notes = notes.map(|note| view! { <p class="note" role="note">{note}</p> }).collect_view();
    let count = format::counted(considered as u64, "config");
    view! {
        {card}
        {verdict.map(|verdict| view! { <p data-testid="verdict">{verdict.in_words(format::time)}</p> })}
        {notes}
        <div class="table-box" tabindex="0">
            <table data-testid="candidates" data-problem=problem.dims()>
                <thead>
                    <tr>
                        <th>"Config"</th>
                        <th class="num">"Rank"</th>
                        <th class="num">"Predicted"</th>
                        <th class="num">"TFLOP/s"</th>
                        <th class="num">{last.0.clone()}</th>
                        <th class="num">"vs first"</th>
                    </tr>
                </thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
        </div>
        {(!in_order).then(|| view! { <p class="hint">{RANK}</p> })}
        {legend([("Predicted".to_owned(), "The time; the bar is the speed relative to the first".to_owned()), last])}
        <p class="hint" data-testid="rank-time" data-rank-ms=format!("{took_ms:.3}")>
            {format!("Ranked {count} in {took_ms:.1} ms.")}
        </p>
        {onward(problem, summary, asked, rounds, is_measured)}
        {confidence.map(|known| view! { <Confidence known group /> })}
    }
}

/// Of the measured problems near another, those that compare in the same way: of its operator and alignment, and of its layouts
/// if any is.
fn alike(near: &[NearestProblem], asked: &Problem) -> Vec<NearestProblem> {
    let is_of_kind =
        |one: &&NearestProblem| one.problem.op == asked.op && is_aligned(&one.problem) == is_aligned(asked);
    let layouts = |problem: &Problem| (problem.a_layout, problem.b_layout);
    let of_kind: Vec<NearestProblem> = near.iter().filter(is_of_kind).cloned().collect();
    let has_layouts = of_kind.iter().any(|one| layouts(&one.problem) == layouts(asked));
    of_kind.into_iter().filter(|one| !has_layouts || layouts(&one.problem) == layouts(asked)).collect()
}

fn is_aligned(problem: &Problem) -> bool {
    ProblemFilter { aligned: Some(true), ..ProblemFilter::default() }.admits(problem)
}

fn rate(problem: &Problem, time: Micros) -> String {
    format::three_digits(Tflops::from_work(problem.flops(), time).0)
}

/// The card of a problem that was measured, if its best config computes what the reader asks for: in full, or as TF32.
pub(super) fn measured(
    hardware: &Hardware,
    near: &[NearestProblem],
    problem: &Problem,
    rounds: bool,
) -> Option<AnyView> {
    let one = near.iter().find(|near| near.problem == *problem)?;
    let is_asked_for = |triton: &KernelResult| triton.config.rounds(problem) == rounds;
    one.triton.as_ref().is_none_or(is_asked_for).then(|| {
        let href = problem_page(&one.problem_id, &hardware.slug, one.method);
        let more = view! {
            <p class="hint own">
                <a href=href>"All configs that were timed"</a>
                ". The model may have learnt this problem, so its predictions below may differ from those on that page."
            </p>
        };
        Best::measured(hardware, one.triton.as_ref(), one.library.as_ref(), one.triton_over_library).card(more)
    })
}

/// What to do with a prediction, and how far to trust it.
fn advice(answer: &Answered) -> impl IntoView + use<> {
    let next = if answer.picks_library() {
        "torch calls the library without tuning, so nothing needs to change."
    } else {
        "Paste the config, or let torch.compile use it: torch_diode picks it by itself."
    };
    let trust = answer.confidence.as_ref().map(|known| {
        let range = known.first_us.map(|(low, high)| {
            format!(" In four of five such cases the first takes {} to {}.", format::time(low), format::time(high))
        });
        let three = known.for_picks(3).map(|share| {
            format!(" Time the first three, and the best of them is within 5\u{a0}% of the best there is in {} of cases.", format::percent(share))
        });
        [range, three].into_iter().flatten().collect::<String>()
    });
    let unaligned = (!is_aligned(&answer.problem))
        .then_some(" N or K is not a multiple of 8, and on such sizes the library is often slow.");
    let tiles = answer.picks.iter().map(|pick| pick.config).filter(|config| !config.is_library()).take(3);
    let lines: String = tiles.map(|config| format!("    {}\n", config_line(&config))).collect();
    view! {
        <p class="hint">{next} {unaligned} {trust}</p>
        <details>
            <summary>"The first three configs"</summary>
            <Snippet text=format!("configs = [\n{lines}]") />
        </details>
    }
}

/// What all rows of an answer share.
struct Shown<'a> {
    problem: &'a Problem,
    vendor: Vendor,
    /// The predicted time of the first pick.
    best: Micros,
    roof: Option<Micros>,
    verdict: Option<Verdict>,
}

impl Shown<'_> {
    /// The last column and what it means: the roofline's share, or the time of the epilogue.
    fn last(&self) -> (String, String) {
        let (text, why) = match self.verdict {
            Some(verdict) => {
                (format!("of it {}", verdict.epilogue), "What the epilogue adds to the multiplication")
            }
            None => (
                "Roofline".to_owned(),
                "Roofline time / predicted time. The roofline is at the usual clock; at the highest, it can be over 100 %",
            ),
        };
        (text, why.to_owned())
    }

    fn row(&self, place: usize, pick: &Weighed) -> impl IntoView + use<> {
        let (time, label) = (pick.total(), format::kernel(&pick.config, self.problem, self.vendor));
        let plain = pick.config.label().replace('×', "x");
        let or_dash = |roof: Option<Micros>| {
            roof.map_or_else(|| "–".to_owned(), |roof| format::percent(roof.0 / time.0))
        };
        let last = match self.verdict {
            Some(_) => format::time(pick.following.0),
            None => or_dash(self.roof),
        };
        let following = self.verdict.map(|_| pick.following.0.to_string());
        view! {
            <tr class:is-best=place == 1 data-config=plain data-predicted-us=pick.alone.0.to_string() data-epilogue-us=following>
                <td class="mono">{label}</td>
                <td class="num dim">{place}</td>
                <BarCell text=format::time(time.0) share=self.best.0 / time.0 />
                <td class="num">{rate(self.problem, time)}</td>
                <td class="num">{last}</td>
                <td class="num dim">{format::factor(time.0 / self.best.0)}</td>
            </tr>
        }
    }
}

/// Links to the same question on the command line, and to the measurements.
fn onward(
    problem: &Problem,
    summary: &ModelSummary,
    asked: Asked,
    rounds: bool,
    is_measured: Signal<bool>,
) -> impl IntoView + use<> {
    let hardware = [("hardware", summary.hardware.to_string())];
    // The link has the shape, too: if nobody has measured the problem, its page links back to Predict.
    let measured =
        link(&format!("/problems/{}", problem.id()), hardware.into_iter().chain(shape_of(problem)));
    let mut command = format!("diode predict --model {} {}", summary.file_name, flags(problem));
    if asked.epilogue != Epilogue::None {
        command += &format!(" --epilogue {}", asked.epilogue);
    }
    if rounds {
        command += " --tf32";
    }
    view! {
        <div data-testid="command"><Snippet text=command /></div>
        <p class="row hint">
            <a href=measured>
                {move || if is_measured.get() { "What was measured for this problem" } else { "Ask agents to measure it" }}
            </a>
            <a href=format!("/models/{}", summary.id)>"About this model"</a>
        </p>
    }
}

/// Shows for how many of the group's unseen problems the best of k picks was within 5 % of the best config.
#[component]
fn Confidence(known: Known, group: ProblemGroup) -> impl IntoView {
    let rows = known.within_5_percent.iter().map(|&(picks, share)| {
        let picks = if picks == 1 { "only the first".to_owned() } else { format!("the first {picks}") };
        view! { <span>{picks}</span> <Bar share /> <span>{format::percent(share)}</span> }
    });
    let hint = format!(
        "share of {} unseen {} on which the best of these is within 5 % of the best there is, the library among them",
        format::count(known.problems),
        group.in_words()
    );
    view! {
        <section class="card" data-testid="within-5-percent">
            <div class="card-head">
                <h2>"How sure is that?"</h2>
                <span class="hint">{hint}</span>
            </div>
            <div class="confidence">{rows.collect_view()}</div>
        </section>
    }
}
