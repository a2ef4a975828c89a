//! The rows of a list, and the files in which they are saved.

use diode_api::ModelSummary;
use diode_core::hardware::Hardware;
use diode_core::table::inductor::InductorOptions;
use diode_core::{Config, Epilogue, Invalid, Micros, Table};
use diode_model::Answer;
use diode_model::epilogue::Weighed;
use diode_worker::Row;
use leptos::prelude::*;

use crate::components::{CaveatMark, MeasureAll, RatioCell, empty, head, num, table};
use crate::files::save_text;
use crate::format;
use crate::pages::list::ListRun;
use crate::pages::predict::shape_of;
use crate::query::link;

/// The number of rows at first, and of more rows at each press. Thousands of rows would take a moment to
/// lay out.
const STEP: usize = 100;

#[component]
pub(super) fn Results(list: ListRun, summary: ModelSummary, hardware: Hardware) -> impl IntoView {
    let ListRun { rows, total, run, stopped, .. } = list;
    let limit = RwSignal::new(STEP);
    let done = move || rows.with(Vec::len);
    let refused =
        Memo::new(move |_| rows.with(|rows| rows.iter().filter(|row| row.outcome.is_err()).count()));
    let shown = move || done().min(limit.get());
    let slug = hardware.slug.to_string();
    let body = {
        let slug = slug.clone();
        view! {
            <For
                each=move || {
                    let run = run.get();
                    (0..shown()).map(move |index| (run, index))
                }
                key=|place: &(u32, usize)| *place
                children=move |(_, index): (u32, usize)| rows.with_untracked(|rows| rows.get(index).map(|one| row(one, &slug)))
            />
        }
    };
    let take_csv = {
        let (summary, name) = (summary.clone(), format!("{slug}-predicted.csv"));
        move |_| rows.with_untracked(|rows| save_text(&name, "text/csv", &csv(rows, &summary)))
    };
    let measured_on = slug.clone();
    let gpu = format::gpu(&hardware.name).to_owned();
    let library = format::library(hardware.vendor);
    let refusal = RwSignal::new(None::<String>);
    let take_table = move |_| {
        let name = format!("{slug}-predicted-inductor.json");
        match rows.with_untracked(|rows| lookup_table(rows, hardware.clone())) {
            Ok(text) => save_text(&name, "application/json", &text),
            Err(error) => refusal.set(Some(error.to_string())),
        }
    };
    let said = move || {
        let (done, total, refused) = (done() as u64, total.get() as u64, refused.get() as u64);
        let of = format!(
            "{} of {} ranked",
            format::count(done.saturating_sub(refused)),
            format::counted(total, "shape")
        );
        let refused = match refused {
            0 => String::new(),
            refused => format!(", {} without a prediction", format::count(refused)),
        };
        format!("{of}{refused}{}", if stopped.get() { ", stopped" } else { "" })
    };
    let is_done = move || done() == total.get() || stopped.get();
    let verdict = move || {
        let is_faster =
            |row: &&Row| row.outcome.as_ref().is_ok_and(|one| one.triton_over_library() > Some(1.0));
        (is_done() && done() > 0).then(|| {
            let faster = rows.with(|rows| rows.iter().filter(is_faster).count()) as u64;
            let said = format!(
                "On {gpu}, predicted: Triton beats {library} on {}.",
                format::counted(faster, "shape")
            );
            view! { <p class="verdict"><strong>{said}</strong></p> }
        })
    };
    let problems = Callback::new(move |()| {
        let ranked = |row: &Row| Some(row.outcome.as_ref().ok()?.problem.clone());
        rows.with_untracked(|rows| rows.iter().filter_map(ranked).collect())
    });
    let ready = Memo::new(move |_| (is_done() && done() > 0).then(|| run.get()));
    let percent = move || format!("{:.0}", 100.0 * done() as f64 / total.get().max(1) as f64);
    let table = view! {
        {verdict}
        <div class="row" data-testid="list-progress">
            <span role="status">{said}</span>
            <button type="button" class="button small" class:hidden=is_done on:click=move |_| list.stop()>"Stop"</button>
            <button type="button" class="button small" prop:disabled=move || !is_done() on:click=take_csv>"CSV"</button>
            <button type="button" class="button small" prop:disabled=move || !is_done() on:click=take_table>
                "Inductor lookup_table"
            </button>
            <MeasureAll slug=measured_on problems ready />
        </div>
        <div
            class="progress"
            class:hidden=is_done
            role="progressbar"
            aria-label="Shapes ranked"
            aria-valuemin="0"
            aria-valuemax="100"
            aria-valuenow=percent
        >
            <i style=move || format!("width: {}%", percent())></i>
        </div>
        {move || refusal.get().map(|message| view! { <p class="error-text" role="alert">{message}</p> })}
        <p class="hint">
            "Bold is the first pick. An entry of lookup_table has the five best kernels in their order, and so begins with "
            "the library's (ATen) where that is first. CSV has Triton's config in every row."
        </p>
        {table([
            head("Shape"), num("Line"), head("Op").roomy(), head("Dtype").roomy(), head("Best Triton config"),
            num("Triton").why("Predicted time of the best Triton config, with the epilogue if one is chosen"),
            num("Library").why("Predicted time of the library, with a kernel for the epilogue if one is chosen"),
            num("Triton vs library").why("Predicted: how much longer the slower of the two takes"),
        ]).testid("list").boxed("table-box board").rows(body)}
        <div class="table-foot">
            {move || (done() > shown()).then(|| view! {
                <button type="button" class="button small" on:click=move |_| limit.update(|limit| *limit += 5 * STEP)>
                    {format!("Show more of {}", format::count(done() as u64))}
                </button>
            })}
        </div>
    };
    let nothing = empty("No list yet", "Its configs and times will stand here.");
    view! {
        <div class:hidden=move || total.get() != 0>{nothing}</div>
        <div class="section" class:hidden=move || total.get() == 0>{table}</div>
    }
}

fn row(row: &Row, slug: &str) -> impl IntoView + use<> {
    let number = row.number;
    match &row.outcome {
        Ok(ranked) => ranked_row(number, ranked, slug).into_any(),
        Err(error) => view! {
            <tr>
                <td class="error-text">"–"</td>
                <td class="num dim">{number}</td>
                <td class="error-text" colspan="6">{error.clone()}</td>
            </tr>
        }
        .into_any(),
    }
}

fn ranked_row(number: usize, ranked: &Answer, slug: &str) -> impl IntoView + use<> {
    let p = &ranked.problem;
    let hardware = [("hardware", slug.to_owned())];
    // Predict gets the setting, too, so that it shows the same time.
    let rounds = ranked.picks.iter().any(|pick| pick.config.rounds_to_tf32());
    let tf32 = if rounds { "1".to_owned() } else { String::new() };
    let epilogue = ranked.verdict.map(|verdict| verdict.epilogue.to_string()).unwrap_or_default();
    let rest = [("tf32", tf32), ("epilogue", epilogue)];
    let href = link("/predict", shape_of(p).into_iter().chain(rest).chain(hardware));
    let triton = ranked.triton();
    let config = format::or_dash(triton.map(|triton| triton.config.label()));
    let time = |one: Option<&Weighed>, is_pick: bool| {
        let text = format::or_dash(one.map(|one| format::time(one.total().0)));
        if is_pick { view! { <strong>{text}</strong> }.into_any() } else { text.into_any() }
    };
    let is_library = ranked.picks_library();
    let mark = ranked.caveat.clone().map(|caveat| view! { <CaveatMark caveat /> });
    let particulars = p.particulars().join(", ");
    let particulars =
        (!particulars.is_empty()).then(|| view! { <small class="hint">" "{particulars}</small> });
    view! {
        <tr>
            <td><a href=href>{p.dims()}</a>{particulars}</td>
            <td class="num dim">{number}</td>
            <td class="roomy">{p.op.to_string()}</td>
            <td class="roomy">{p.a_dtype.to_string()}{rounds.then_some(", TF32")}</td>
            <td class="mono">{config}</td>
            <td class="num">{time(triton, !is_library)} {mark}</td>
            <td class="num">{time(ranked.library.as_ref(), is_library)}</td>
            <RatioCell ratio=ranked.triton_over_library() />
        </tr>
    }
}

const HEAD: &str = "line,op,b,m,n,k,dtype,a_layout,b_layout,bias,config,template,block_m,block_n,block_k,\
                    group_m,num_stages,num_warps,predicted_us,library_us,epilogue,epilogue_us,library_epilogue_us,\
                    triton_over_library,pick,model,note\n";

/// One row for each line of the list: the best Triton config, and the library's time beside it. Lines without a
/// prediction have a row, too.
pub(super) fn csv(rows: &[Row], model: &ModelSummary) -> String {
    let mut text = HEAD.to_owned();
    for row in rows {
        text += &match &row.outcome {
            Ok(ranked) => predicted_row(row.number, ranked, model),
            Err(error) => bare_row(row.number, &quoted(error)),
        };
    }
    text
}

/// A row that has only a number and a note.
fn bare_row(number: usize, note: &str) -> String {
    format!("{number}{}{note}\n", ",".repeat(HEAD.matches(',').count()))
}

fn predicted_row(number: usize, ranked: &Answer, model: &ModelSummary) -> String {
    let p = &ranked.problem;
    let Some(triton) = ranked.triton() else {
        return bare_row(number, "no config");
    };
    let config = &triton.config;
    let shape = format!(
        "{number},{},{},{},{},{},{},{},{},{}",
        p.op, p.b, p.m, p.n, p.k, p.a_dtype, p.a_layout, p.b_layout, p.bias
    );
    let tile = config.tile().map_or_else(
        || ",".repeat(5),
        |t| {
            format!(
                "{},{},{},{},{},{}",
                t.block_m, t.block_n, t.block_k, t.group_m, t.num_stages, t.num_warps
            )
        },
    );
    let time = |us: Option<Micros>| us.map(|us| format!("{:.3}", us.0)).unwrap_or_default();
    let library = time(ranked.library.map(|library| library.alone));
    // The times that the epilogue adds have columns of their own.
    let epilogue = ranked.verdict.map_or(Epilogue::None, |verdict| verdict.epilogue);
    let added =
        |one: Option<&Weighed>| time(one.filter(|_| ranked.verdict.is_some()).map(|one| one.following));
    let (following, after_library) = (added(Some(triton)), added(ranked.library.as_ref()));
    let note = ranked.caveat.as_deref().map(quoted).unwrap_or_default();
    let (label, template) = (config.label().replace('×', "x"), config.template());
    let alone = time(Some(triton.alone));
    let times = format!("{alone},{library},{epilogue},{following},{after_library}");
    let ratio = ranked.triton_over_library().map(|ratio| format!("{ratio:.4}")).unwrap_or_default();
    let pick = if ranked.picks_library() { "library" } else { "triton" };
    format!("{shape},{label},{template},{tile},{times},{ratio},{pick},{},{note}\n", model.id)
}

/// A text as one quoted field, because it may contain commas.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// The picks as torch's `lookup_table`.
pub(super) fn lookup_table(rows: &[Row], hardware: Hardware) -> Result<String, Invalid> {
    let choices = rows.iter().filter_map(|row| row.outcome.as_ref().ok()).map(|ranked| {
        let configs: Vec<Config> = ranked.picks.iter().map(|pick| pick.config).collect();
        (ranked.problem.clone(), configs)
    });
    // A shape that stands twice in the list is one problem.
    let mut seen = std::collections::HashSet::new();
    let choices = choices.filter(|(problem, _)| seen.insert(problem.clone()));
    let table = Table::from_choices(hardware, choices)?.to_inductor(&InductorOptions::default())?;
    serde_json::to_string_pretty(&table)
        .map_err(|error| Invalid::new("table", error, "one that JSON can hold"))
}
