//! How few configs suffice for the filtered problems.

use std::sync::Arc;

use diode_api::{ConfigCover, CoverStep, HardwareSummary};
use diode_core::{Config, Op, Template};
use leptos::prelude::*;
use leptos_router::hooks::use_query_map;

use super::filters::{Filter, any_of, filter_parameters};
use crate::charts::{Column, Columns};
use crate::components::{BarCell, Chips, Snippet, empty, head, num, table, unnamed};
use crate::format;
use crate::pages::hardware::filters::{Filtered, any_fault};
use crate::query::{History, link, parameter, parameter_or, use_set_parameters};
use crate::remote::remote;

/// A good list covers this share of the problems.
const GOAL: f64 = 0.95;

/// The filter for the operator.
const OP: &str = "op";

/// The parameter of the address that says how many of the first configs are written as code.
const TAKE: &str = "take";

#[component]
pub(super) fn ConfigBoard(summary: Arc<HardwareSummary>) -> impl IntoView {
    let (map, any_fault) = (use_query_map(), any_fault());
    let slug = summary.hardware.slug.to_string();
    let is_measured = summary.timings > 0;
    // A kernel is written for one operator, so the list is also for one operator.
    let usual = summary.ops.iter().find(|op| **op == Op::Mm).or(summary.ops.first());
    let usual_op = usual.map(ToString::to_string).unwrap_or_default();
    let ops = unnamed(&summary.ops);
    let (dtypes, scalings) = (any_of(&summary.dtypes), any_of(&summary.scalings));
    let default = usual_op.clone();
    let op = parameter_or(OP, usual_op.clone());
    let cover = remote::<ConfigCover>(move || {
        let mut given = map.with(|map| filter_parameters(&summary, map));
        for (key, value) in &mut given {
            if *key == OP && value.is_empty() {
                value.clone_from(&usual_op);
            }
        }
        (is_measured && !any_fault.get()).then(|| link(&format!("/hardware/{slug}/configs"), given))
    });
    let board = move || {
        if !is_measured {
            return empty("Nothing has been measured yet", "There is nothing to choose configs by.");
        }
        view! { <Filtered remote=cover height="40rem" children=move |cover| view! { <List cover op=op.get_untracked() /> } /> }
            .into_any()
    };
    view! {
        <section class="section" aria-labelledby="board-title">
            <h2 id="board-title">"How few configs are enough?"</h2>
            <p class="hint">
                "A config covers a problem if it is within 5 % of the problem's best Triton config. Each config of the "
                "list is the one that covers the most problems that those before it leave."
            </p>
            <div class="filters">
                <Filter label="Operator" key=OP choices=ops default />
                <Filter label="Type" key="dtype" choices=dtypes />
                <Filter label="Scaling" key="scaling" choices=scalings />
            </div>
            <div class="section" class:busy=move || cover.busy()>{board}</div>
        </section>
    }
}

#[component]
fn List(cover: Arc<ConfigCover>, op: String) -> impl IntoView {
    let ConfigCover { problems, sampled, ref steps, .. } = *cover;
    if steps.is_empty() {
        return empty("No problem matches these filters", "Clear a filter to see more.");
    }
    let sample = (sampled < problems).then(|| {
        format!(" Computed from {} of {}, an even sample.", format::count(sampled), format::count(problems))
    });
    let rows = (1..).zip(steps).map(|(place, step)| row(place, step, sampled)).collect_view();
    view! {
        <p class="verdict" data-testid="cover"><strong>{verdict(steps, sampled, &op)}</strong> " " {shorter(steps)} {sample}</p>
        <Columns
            columns=(1..).zip(steps).map(|(place, step)| column(place, step)).collect()
            description="Columns: the share of problems that the first configs cover, and marks: their geometric mean of the best. The table below has the same numbers.".to_owned()
            ends=["1 config".to_owned(), format::counted(steps.len() as u64, "config")]
            top="100 %".to_owned()
        />
        <p class="hint">"Columns: share of the problems covered. Marks: share of the best, geometric mean."</p>
        <Written cover=Arc::clone(&cover) />
        {table([
            num("Configs"), head("Added"), head("Template").roomy(),
            num("Covered").why("Share of the problems where one of the first configs is within 5 % of the best"),
            num("Of best").why("Geometric mean of best time / best time among the first configs, over the problems where one of them was timed"),
            num("Timed").why("Problems where one of the first configs was timed"),
        ]).rows(rows)}
    }
    .into_any()
}

/// A sentence about the shortest list that reaches the goal, or about the whole list if none does.
fn verdict(steps: &[CoverStep], problems: u64, op: &str) -> String {
    let reached = enough(steps);
    let covered = steps[reached - 1].share;
    let of = format::counted(problems, &format!("{op} problem"));
    let covers = format!("{} of {of}", covers(steps, reached));
    if covered >= GOAL {
        return format!("{covers}.");
    }
    format!(
        "Even {covers}: more would be needed for {}, and the list ends here, because each further one helps few.",
        format::percent(GOAL)
    )
}

/// `8 configs cover 71.2 %`
fn covers(steps: &[CoverStep], number: usize) -> String {
    format!(
        "{} {} {}",
        format::counted(number as u64, "config"),
        if number == 1 { "covers" } else { "cover" },
        format::percent(steps[number - 1].share)
    )
}

/// What lists of 4, 8, 16 and 32 configs cover, if they are shorter than the list that reaches the
/// goal.
fn shorter(steps: &[CoverStep]) -> Option<String> {
    let shorter = [4, 8, 16, 32].into_iter().filter(|number| *number < enough(steps));
    let said: Vec<String> = shorter.map(|number| covers(steps, number)).collect();
    (!said.is_empty()).then(|| format!("{}.", said.join(", ")))
}

/// How many configs reach the goal. If all together do not reach it, the number of all.
fn enough(steps: &[CoverStep]) -> usize {
    steps.iter().position(|step| step.share >= GOAL).map_or(steps.len(), |place| place + 1)
}

fn column(place: u64, step: &CoverStep) -> Column {
    let text = format!(
        "{}: {} covered, {} of the best",
        format::counted(place, "config"),
        format::percent(step.share),
        format::percent(step.share_of_best)
    );
    let class = if step.share >= GOAL { "" } else { "muted" };
    Column { share: step.share, class, mark: Some(step.share_of_best), text }
}

fn row(place: u64, step: &CoverStep, problems: u64) -> impl IntoView + use<> {
    let timed = if step.timed == problems { "all".to_owned() } else { format::count(step.timed) };
    view! {
        <tr>
            <td class="num">{place}</td>
            <td class="mono">{step.config.label()}</td>
            <td class="roomy">{step.config.template().to_string()}</td>
            <BarCell text=format::percent(step.share) share=step.share />
            <td class="num">{format::percent(step.share_of_best)}</td>
            <td class="num dim">{timed}</td>
        </tr>
    }
}

/// The first configs as code to copy.
#[component]
fn Written(cover: Arc<ConfigCover>) -> impl IntoView {
    let (taken, set) = (parameter(TAKE), use_set_parameters());
    let (all, goal) = (cover.steps.len(), enough(&cover.steps));
    let mut sizes: Vec<usize> =
        [1, 4, 8, 16, 32, goal, all].into_iter().filter(|size| *size <= all).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let choices = unnamed(sizes);
    let number = Memo::new(move |_| {
        taken.with(|taken| taken.parse().ok().filter(|number| (1..=all).contains(number)).unwrap_or(goal))
    });
    let current = Signal::derive(move || number.get().to_string());
    let code = move || python(&cover.steps[..number.get()]);
    view! {
        <Chips label="Copy the first" choices current choose=move |value| set(&[(TAKE, value)], History::Push) />
        {move || view! { <Snippet text=code() /> }}
    }
}

/// Lists of configs for `triton.autotune`, one for each template: another template is another kernel.
fn python(steps: &[CoverStep]) -> String {
    let mut templates: Vec<Template> = Vec::new();
    for step in steps {
        if !templates.contains(&step.config.template()) {
            templates.push(step.config.template());
        }
    }
    let list = |template: &Template| {
        let own = || steps.iter().map(|step| &step.config).filter(|config| config.template() == *template);
        // If no config has a tile, there is no triton.Config to list, and all lines are comments.
        let is_list = own().any(|config| config.tile().is_some());
        let indent = if is_list { "    " } else { "" };
        let lines: String = own().map(|config| format!("{indent}{}\n", config_line(config))).collect();
        if !is_list {
            return lines.trim_end().to_owned();
        }
        let name = template.as_str().trim_start_matches("triton::");
        let name = if templates.len() == 1 { String::new() } else { format!("{name}_") };
        format!("{name}configs = [\n{lines}]")
    };
    templates.iter().map(list).collect::<Vec<_>>().join("\n")
}

/// A config for `triton.autotune`, or a comment that says why it has none.
pub(crate) fn config_line(config: &Config) -> String {
    let Some(tile) = config.tile() else {
        return format!("# {}: no triton.Config, {} of Inductor", config.label(), config.template());
    };
    let rocm = tile.rocm.map_or_else(String::new, |rocm| {
        format!(
            ", \"matrix_instr_nonkdim\": {}, \"waves_per_eu\": {}, \"kpack\": {}",
            rocm.matrix_instr_nonkdim, rocm.waves_per_eu, rocm.kpack
        )
    });
    let note = if matches!(config, Config::PersistentTma(_)) { "  # persistent, TMA" } else { "" };
    format!(
        "triton.Config({{\"BLOCK_M\": {}, \"BLOCK_N\": {}, \"BLOCK_K\": {}, \"GROUP_M\": {}{rocm}}}, num_stages={}, num_warps={}),{note}",
        tile.block_m, tile.block_n, tile.block_k, tile.group_m, tile.num_stages, tile.num_warps
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use diode_core::Tile;

    fn step(config: Config, share: f64) -> CoverStep {
        CoverStep { config, covered: 1, share, timed: 1, share_of_best: 1.0 }
    }

    #[test]
    fn lists_are_python() {
        let tile = Tile::new(128, 256, 64, 3, 8);
        let steps = [step(Config::Mm(tile), 0.5), step(Config::DecomposeK { k_split: 4 }, 1.0)];
        let expected = "mm_configs = [\n    triton.Config({\"BLOCK_M\": 128, \"BLOCK_N\": 256, \"BLOCK_K\": 64, \"GROUP_M\": 8}, num_stages=3, num_warps=8),\n]\n# split-K 4: no triton.Config, decompose_k of Inductor";
        assert_eq!(python(&steps), expected);
        assert_eq!(
            python(&steps[..1]),
            expected.lines().take(3).collect::<Vec<_>>().join("\n").replace("mm_", "")
        );
    }

    #[test]
    fn the_verdict_is_of_the_first_list_that_reaches_the_goal() {
        let steps = [0.5, 0.94, 0.96, 0.99].map(|share| step(Config::Library, share));
        let said = |steps: &[CoverStep], problems| verdict(steps, problems, "mm").replace('\u{a0}', " ");
        assert_eq!(said(&steps, 200), "3 configs cover 96.0 % of 200 mm problems.");
        assert_eq!(
            said(&steps[..1], 1),
            "Even 1 config covers 50.0 % of 1 mm problem: more would be needed for 95.0 %, and the list ends here, because \
             each further one helps few."
        );
        assert_eq!(shorter(&steps), None);
        let many: Vec<CoverStep> =
            (1..=20).map(|part| step(Config::Library, f64::from(part) / 20.0)).collect();
        assert_eq!(
            shorter(&many).map(|said| said.replace('\u{a0}', " ")).as_deref(),
            Some("4 configs cover 20.0 %, 8 configs cover 40.0 %, 16 configs cover 80.0 %.")
        );
    }
}
