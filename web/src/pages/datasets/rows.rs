//! The rows of a dataset, problem by problem, and what its columns mean.

use std::cmp::Reverse;
use std::sync::Arc;

use diode_api::{ConfigResult, HardwareSummary, Leaderboard, ProblemDetail};
use diode_core::Tile;
use leptos::prelude::*;

use crate::components::{FailedLoad, Loaded, chips, empty, head, named, num, table};
use crate::format;
use crate::pages::list::one_shape;
use crate::query::{link, problem_page};
use crate::remote::{Load, remote};

/// The columns of Parquet and CSV, and what they mean. Names on one line have one meaning.
const COLUMNS: [(&str, &str); 17] = [
    (
        "dataset, solution",
        "numbers of the part of the file, and of the solution in it: all timings of one problem from one upload",
    ),
    ("hardware, hardware_name, vendor", "what it was measured on"),
    ("op, b, m, n, k", "the multiplication and its sizes: b products of m×k by k×n"),
    ("a_dtype, b_dtype, out_dtype", "the types of the operands and of the result"),
    ("a_layout, b_layout", "row or column: which dimension of a matrix is contiguous"),
    ("bias, out_size, out_stride", "what is added, and how the result lies in memory if not dense"),
    (
        "scaling, groups, top_k, stage, rows",
        "of scaled and grouped multiplications; only in files that have some",
    ),
    ("method", "how times were taken"),
    ("template", "the kernel: a Triton template, or aten for the vendor's library"),
    ("block_m, block_n, block_k, group_m", "the tile of a Triton config, and how tiles are grouped"),
    ("num_stages, num_warps", "its pipeline stages and warps"),
    ("even_k, allow_tf32, use_fast_accum, acc_type", "its further settings"),
    ("matrix_instr_nonkdim, waves_per_eu, kpack", "its settings on AMD GPUs"),
    ("k_split, swap_ab", "the parts that K is split into; whether operands are swapped"),
    (
        "time_ns, time_ms",
        "the median time of one run; time_ns where it is exact; in Parquet, time_ms only if time_ns lacks any",
    ),
    ("minimum_ns, spread_ns, repeats", "the least time, the interquartile range, and the number of runs"),
    ("failure", "why the config has no time"),
];

/// How many problems can be leafed through, those with the most operations.
const PROBLEMS: usize = 100;

/// The rows of one page.
const ON_PAGE: usize = 20;

type Number = fn(&ConfigResult) -> Option<u64>;

/// The columns of numbers, each by its name in the files.
const NUMBERS: [(&str, Number); 6] = [
    ("block_m", |one| tile(one, |tile| tile.block_m)),
    ("block_n", |one| tile(one, |tile| tile.block_n)),
    ("block_k", |one| tile(one, |tile| tile.block_k)),
    ("num_stages", |one| tile(one, |tile| tile.num_stages)),
    ("num_warps", |one| tile(one, |tile| tile.num_warps)),
    ("time_ns", |one| Some((one.us * 1e3).round() as u64)),
];

fn tile(one: &ConfigResult, of: fn(&Tile) -> u32) -> Option<u64> {
    one.config.tile().map(of).map(u64::from)
}

#[component]
pub(super) fn Rows(summary: Arc<HardwareSummary>) -> impl IntoView {
    let slug = summary.hardware.slug.to_string();
    let method = summary.method.map(|method| method.to_string()).unwrap_or_default();
    let (typed, place) = (RwSignal::new(String::new()), RwSignal::new(0));
    let read = Memo::new(move |_| typed.with(|text| (!text.trim().is_empty()).then(|| one_shape(text))));
    let first = {
        let (slug, method) = (slug.clone(), method.clone());
        let asked = move || {
            let mut asked = vec![
                ("sort", "flops".to_owned()),
                ("limit", PROBLEMS.to_string()),
                ("method", method.clone()),
            ];
            if let Some(Ok((shape, _))) = read.get() {
                asked.push(("dtype", shape.a_dtype.to_string()));
                let bounds =
                    [("min_m", "max_m", shape.m), ("min_n", "max_n", shape.n), ("min_k", "max_k", shape.k)];
                asked.extend(
                    bounds
                        .iter()
                        .flat_map(|(low, high, size)| [*low, *high].map(|key| (key, size.to_string()))),
                );
            }
            asked
        };
        remote::<Leaderboard>(move || Some(link(&format!("/hardware/{slug}/leaderboard"), asked())))
    };
    let find = move |event: leptos::ev::Event| {
        typed.set(event_target_value(&event));
        place.set(0);
    };
    let fault = move || read.get().and_then(Result::err);
    let detail = remote::<ProblemDetail>(move || {
        let board = first.value()?;
        let problem = board.items.get(place.get())?;
        Some(problem_page(&problem.problem_id, &slug, &method))
    });
    let many = move || first.value().map_or(0, |board| board.items.len());
    let leaf = move |text: &'static str, by: isize| {
        let there = move || place.get().checked_add_signed(by).filter(|place| *place < many());
        view! {
            <button type="button" class="button small" disabled=move || there().is_none()
                on:click=move |_| if let Some(next) = there() { place.set(next) }
            >{text}</button>
        }
    };
    let shown = move || match first.get() {
        Load::Failed(reason) => view! { <FailedLoad reason retry=move || first.retry() /> }.into_any(),
        Load::Ready(board) if board.items.is_empty() => {
            empty("No rows", "No config of such a problem has a time in this dataset.")
        }
        _ => {
            view! { <Loaded remote=detail height="38rem" children=|detail| view! { <OfProblem detail /> } /> }
                .into_any()
        }
    };
    view! {
        <section class="section" data-testid="sample-rows" aria-labelledby="rows-title">
            <h2 id="rows-title">"Rows"</h2>
            <div class="field search">
                <label for="rows-of">"Of a shape"</label>
                <input type="search" id="rows-of" placeholder="4096x4096x4096 bf16" aria-describedby="rows-of-fault" on:change=find />
                <p class="error-text" id="rows-of-fault" role="alert">{fault}</p>
            </div>
            <div class="row">
                {leaf("Problem before", -1)}
                <span>{move || format!("Problem {} of {}, by operations", format::count(place.get() as u64 + 1), format::count(many() as u64))}</span>
                {leaf("Next problem", 1)}
            </div>
            {shown}
        </section>
        <section class="section" aria-labelledby="columns-title">
            <h2 id="columns-title">"Columns"</h2>
            {table([head("Column"), head("What it means")]).testid("columns").rows(
                COLUMNS.map(|(names, meaning)| view! { <tr><td class="mono wrap">{names}</td><td class="wrap">{meaning}</td></tr> }).collect_view(),
            )}
        </section>
    }
}

/// The rows of one problem: a time for each config, agreed on by those who measured it.
#[component]
fn OfProblem(detail: Arc<ProblemDetail>) -> impl IntoView {
    let templates: std::collections::BTreeSet<String> =
        detail.configs.iter().map(|one| one.config.template().to_string()).collect();
    let (template, sort, page) =
        (RwSignal::new(String::new()), RwSignal::new("time_ns".to_owned()), RwSignal::new(0));
    Effect::new(move |_| {
        template.track();
        sort.track();
        page.set(0);
    });
    let any = std::iter::once((String::new(), "any".to_owned()));
    let choices = any.chain(templates.into_iter().map(|name| (name.clone(), name))).collect();
    let sorts = named(&NUMBERS.map(|(name, _)| (name, name)));
    let about = {
        let problem = &detail.problem;
        format!(
            "{} {} {}, {}, {}",
            problem.op,
            problem.dims(),
            problem.a_dtype,
            detail.hardware.name,
            detail.method
        )
    };
    let rows = move || {
        let mut rows: Vec<&ConfigResult> = detail.configs.iter().collect();
        template.with(|wanted| {
            rows.retain(|one| wanted.is_empty() || one.config.template().to_string() == *wanted)
        });
        if let Some((name, of)) = NUMBERS.iter().find(|(name, _)| sort.with(|sort| sort == name)) {
            // Times from the least, sizes from the greatest.
            match *name {
                "time_ns" => rows.sort_by_key(|one| of(one)),
                _ => rows.sort_by_key(|one| Reverse(of(one))),
            }
        }
        let (many, first) = (rows.len(), page.get() * ON_PAGE);
        let heads = std::iter::once(head("template")).chain(NUMBERS.map(|(name, _)| num(name)));
        let sums = NUMBERS
            .map(|(_, of)| view! { <td class="num dim">{range(rows.iter().filter_map(|one| of(one)))}</td> });
        let cells = rows.iter().skip(first).take(ON_PAGE).map(|one| {
            let numbers = NUMBERS.map(|(_, of)| {
                view! { <td class="num">{of(one).map_or_else(|| "–".to_owned(), |number| number.to_string())}</td> }
            });
            view! { <tr><td>{one.config.template().to_string()}</td>{numbers.collect_view()}</tr> }
        });
        let last = (first + ON_PAGE).min(many);
        view! {
            {table(heads.collect::<Vec<_>>()).rows(view! {
                <tr><td class="dim">{format::counted(many as u64, "row")}</td>{sums.collect_view()}</tr>
                {cells.collect_view()}
            })}
            <div class="row">
                <button type="button" class="button small" disabled=first == 0 on:click=move |_| page.update(|page| *page -= 1)>"Rows before"</button>
                <span class="hint">{format!("{} to {} of {}", format::count(first as u64 + 1), format::count(last as u64), format::count(many as u64))}</span>
                <button type="button" class="button small" disabled=last == many on:click=move |_| page.update(|page| *page += 1)>"More rows"</button>
            </div>
        }
    };
    view! {
        <p>{about}</p>
        <div class="filters">{chips("Template", choices, template)} {chips("Sort by", sorts, sort)}</div>
        {rows}
    }
}

/// The least and the greatest of some numbers.
fn range(numbers: impl Iterator<Item = u64>) -> String {
    let (least, most) =
        numbers.fold((u64::MAX, 0), |(least, most), number| (least.min(number), most.max(number)));
    match (least, most) {
        (u64::MAX, _) => "–".to_owned(),
        (least, most) if least == most => least.to_string(),
        (least, most) => format!("{least}–{most}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_short() {
        assert_eq!(range([16, 64, 32].into_iter()), "16–64");
        assert_eq!((range([8].into_iter()), range(std::iter::empty())), ("8".to_owned(), "–".to_owned()));
    }
}
