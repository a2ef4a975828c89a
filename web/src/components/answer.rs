//! The answer to "what is fastest for this shape": a sentence, the config to copy, and the same on every hardware.

use std::collections::{BTreeMap, BTreeSet};

use diode_api::{KernelResult, LibraryVersion, ModelSummary, NearestProblem, ShapeOnHardware};
use diode_core::hardware::{Hardware, Vendor, find};
use diode_core::{Config, Problem};
use diode_model::{Answer, Question, Ranker};
use leptos::prelude::*;

use crate::components::figures::RatioCell;
use crate::components::loaded::{Loaded, empty};
use crate::components::nearest::shape_parameters;
use crate::components::snippet::Snippet;
use crate::components::table::{head, num, table};
use crate::format;
use crate::pages::config_line;
use crate::pages::predict::shape_of;
use crate::query::{link, problem_page};
use crate::remote::{Load, remote, remote_model};

/// What is best for a problem on a hardware: Triton or the vendor's library.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Best {
    hardware: String,
    /// The vendor's library, with its version where it is known.
    library: String,
    /// The best Triton config and its time in µs.
    triton: Option<(Config, f64)>,
    library_us: Option<f64>,
    /// Library time / Triton time. `None` if one is missing, or if only one of them rounds float32.
    ratio: Option<f64>,
    origin: Origin,
}

/// How times are known.
#[derive(Debug, Clone, PartialEq)]
enum Origin {
    Measured,
    /// Predicted. The ratios are of the nearest measured problems.
    Predicted(Vec<f64>),
}

impl Best {
    pub(crate) fn measured(
        hardware: &Hardware,
        triton: Option<&KernelResult>,
        library: Option<&KernelResult>,
        ratio: Option<f64>,
    ) -> Self {
        Self {
            hardware: name(hardware),
            library: format::library(hardware.vendor).to_owned(),
            triton: triton.map(|triton| (triton.config, triton.us)),
            library_us: library.map(|library| library.us),
            ratio,
            origin: Origin::Measured,
        }
    }

    /// The same, with the version of the library if it is known.
    pub(crate) fn of_version(self, version: Option<&LibraryVersion>) -> Self {
        Self { library: version.map_or(self.library, LibraryVersion::in_words), ..self }
    }

    /// `near` are the measured problems nearest to the one of the answer.
    pub(crate) fn predicted(hardware: &Hardware, answer: &Answer, near: &[NearestProblem]) -> Self {
        Self {
            hardware: name(hardware),
            library: format::library(hardware.vendor).to_owned(),
            triton: answer.triton().map(|pick| (pick.config, pick.total().0)),
            library_us: answer.library.map(|library| library.total().0),
            ratio: answer.triton_over_library(),
            origin: Origin::Predicted(near.iter().filter_map(|near| near.triton_over_library).collect()),
        }
    }

    pub(crate) fn sentence(&self) -> String {
        let library = &self.library;
        let times = (self.triton.map(|(_, us)| format::time(us)), self.library_us.map(format::time));
        let said = match times {
            (Some(triton), Some(own)) => {
                let (triton, own) =
                    (format!("the best Triton config ({triton})"), format!("{library} ({own})"));
                match self.ratio {
                    None => format!("{triton} and {own} are not compared: only one of them rounds to TF32"),
                    Some(ratio) => {
                        let (first, second) = if ratio > 1.0 { (triton, own) } else { (own, triton) };
                        match format::gap(ratio) {
                            None => format!("{first} and {second} are equally fast to 1\u{a0}%"),
                            Some(times) if times.ends_with('×') => {
                                format!("{first} is {times} as fast as {second}")
                            }
                            Some(gap) => format!("{first} beats {second} by {gap}"),
                        }
                    }
                }
            }
            (Some(triton), None) => format!("the best Triton config takes {triton}"),
            (None, Some(own)) => format!("{library} takes {own}, and no Triton config has a time"),
            (None, None) => "nothing has a time".to_owned(),
        };
        let how = match &self.origin {
            Origin::Measured => "measured".to_owned(),
            Origin::Predicted(near) => format!("predicted{}", self.neighbours(near).unwrap_or_default()),
        };
        format!("On {}, {said}, {how}.", format::gpu(&self.hardware))
    }

    /// How Triton compares on the nearest measured problems: by how much the winner wins there, if it is the same everywhere.
    fn neighbours(&self, near: &[f64]) -> Option<String> {
        let least = near.iter().copied().reduce(f64::min)?;
        let most = near.iter().copied().reduce(f64::max)?;
        let is_one_sided =
            self.ratio.is_some_and(|own| (own < 1.0 && most < 1.0) || (own > 1.0 && least > 1.0));
        if is_one_sided && (least > 0.5 && most < 2.0) {
            let percent = |ratio: f64| (ratio.max(1.0 / ratio) - 1.0) * 100.0;
            let (low, high) = (percent(least).min(percent(most)), percent(least).max(percent(most)));
            return Some(format!("; measured neighbours: {low:.0}–{high:.0}\u{a0}%"));
        }
        let (least, most) = (format::against(least), format::against(most));
        Some(format!(
            "; on measured neighbours Triton is {}",
            if least == most { least } else { format!("between {least} and {most}") }
        ))
    }

    /// The card with the sentence and the config to copy, then what the caller adds.
    pub(crate) fn card(&self, more: impl IntoView) -> AnyView {
        let config = self.triton.map(|(config, _)| {
            let python = config_line(&config).replacen("),", ")", 1);
            view! {
                <p data-testid="best-config">"Best Triton config: " <strong>{in_words(&config)}</strong></p>
                <Snippet text=python />
            }
        });
        view! {
            <section class="card answer" data-testid="answer" aria-live="polite">
                <p class="sentence">{self.sentence()}</p>
                {config}
                {more.into_any()}
            </section>
        }
        .into_any()
    }
}

/// The name of a hardware in the catalogue. A device may call itself otherwise: `NVIDIA H100 80GB HBM3`.
fn name(hardware: &Hardware) -> String {
    find(hardware.slug.as_str()).map_or_else(|| hardware.name.clone(), |known| known.name)
}

/// A config in words: `128×256×64, 4 stages, 8 warps`.
fn in_words(config: &Config) -> String {
    let part = |part: &str| {
        let count = |letter| part.strip_prefix(letter).and_then(|number| number.parse::<u64>().ok());
        match (count('s'), count('w')) {
            (Some(stages), _) => format!(", {}", format::counted(stages, "stage")),
            (_, Some(warps)) => format!(", {}", format::counted(warps, "warp")),
            _ => format!(" {part}"),
        }
    };
    config.label().split(' ').map(part).collect::<String>().trim_start().to_owned()
}

/// The most models that are fetched at once. Each is a file of some hundred kilobytes.
const MOST_MODELS: usize = 3;

/// A problem on every hardware: what was measured, else what the model of the hardware predicts, else the nearest. `asked` is
/// the problem, and whether float32 is rounded to TF32.
#[component]
pub(crate) fn Everywhere(#[prop(into)] asked: Signal<Option<(Problem, bool)>>) -> impl IntoView {
    let asked = Memo::new(move |_| asked.get());
    let found = remote::<Vec<ShapeOnHardware>>(move || {
        asked.with(|asked| asked.as_ref().map(|(problem, _)| link("/nearest", shape_parameters(problem))))
    });
    let models = remote::<Vec<ModelSummary>>(|| Some("/models?model_type=ranking".to_owned()));
    let shown = move |all: std::sync::Arc<Vec<ShapeOnHardware>>| {
        move || {
            let models = models.value();
            let models = models.as_deref().map_or(&[][..], Vec::as_slice);
            asked.get_untracked().map(|(problem, tf32)| side_by_side(&problem, tf32, &all, models))
        }
    };
    view! {
        <section class="section" class:busy=move || found.busy() class:hidden=move || asked.with(Option::is_none) aria-label="On every GPU">
            <h2>"On every GPU"</h2>
            <Loaded remote=found height="9rem" children=shown />
        </section>
    }
}

fn side_by_side(problem: &Problem, tf32: bool, all: &[ShapeOnHardware], models: &[ModelSummary]) -> AnyView {
    let mut fetched = 0;
    let mut rows: Vec<(u8, AnyView)> = Vec::new();
    for one in all {
        let is_measured = one.exact && one.items.iter().any(|item| item.problem == *problem);
        if one.exact {
            rows.extend(
                one.items
                    .iter()
                    .map(|item| (u8::from(item.problem != *problem), measured(item, one).into_any())),
            );
        }
        let model = ModelSummary::best_for(models, &one.hardware).filter(|_| !is_measured);
        if let Some(model) = model.filter(|_| fetched < MOST_MODELS) {
            fetched += 1;
            let (model, name, slug) = (model.id.to_string(), one.name.clone(), one.hardware.to_string());
            rows.push((2, view! { <Predicted model name slug problem=problem.clone() tf32 /> }.into_any()));
        } else if !one.exact {
            rows.extend(one.items.iter().map(|item| (3, measured(item, one).into_any())));
        }
    }
    if rows.is_empty() {
        return empty(
            "No similar problem was measured",
            "No hardware of this server has a problem of this type, nor a model for it.",
        );
    }
    rows.sort_by_key(|(order, _)| *order);
    let is_nvidia = all.iter().all(|one| one.hardware.as_str().starts_with("nvidia"));
    let library = if is_nvidia { format::library(Vendor::Nvidia) } else { "library" };
    view! {
        {fastest(all)}
        {unmeasured(problem, all).map(|said| view! { <p class="note" role="note" data-testid="unmeasured">{said}</p> })}
        {as_another_op(problem, all).map(|said| view! { <p class="note" role="note" data-testid="other-op">{said}</p> })}
        {table([
            head("Hardware"), head("Known by").roomy(), head("Best Triton config"),
            num("Triton"), num(library), num(format!("Triton vs {library}")),
        ]).testid("side-by-side").rows(rows.into_iter().map(|(_, row)| row).collect_view())}
    }
    .into_any()
}

/// Says where the sizes were not measured, so that nobody takes predicted times, or those of the nearest problems, for measured
/// ones.
fn unmeasured(asked: &Problem, all: &[ShapeOnHardware]) -> Option<String> {
    let names: Vec<&str> = all.iter().filter(|one| !one.exact).map(|one| one.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("Nobody has measured {} on {}.", asked.dims(), names.join(" and ")))
}

/// Says where the sizes were measured, but with another op than the reader asks for.
fn as_another_op(asked: &Problem, all: &[ShapeOnHardware]) -> Option<String> {
    let differs =
        |one: &&ShapeOnHardware| one.exact && one.items.iter().all(|item| item.problem.op != asked.op);
    let differing: Vec<&ShapeOnHardware> = all.iter().filter(differs).collect();
    let names: Vec<&str> = differing.iter().map(|one| one.name.as_str()).collect();
    let ops: BTreeSet<&str> =
        differing.iter().flat_map(|one| &one.items).map(|item| item.problem.op.as_str()).collect();
    let ops: Vec<&str> = ops.into_iter().collect();
    (!names.is_empty()).then(|| {
        format!(
            "You ask for {}. On {}, these sizes were measured as {} only: the same multiplication, {}.",
            asked.op,
            names.join(" and "),
            ops.join(" and "),
            if asked.op.has_bias() { "without its bias" } else { "with a bias added" }
        )
    })
}

/// For each problem that was measured on several types of hardware by one method: the fastest hardware, and by how
/// much.
fn fastest(all: &[ShapeOnHardware]) -> impl IntoView + use<> {
    let mut shared: BTreeMap<_, (String, Vec<(f64, String)>)> = BTreeMap::new();
    for one in all.iter().filter(|one| one.exact) {
        for item in &one.items {
            let Some(triton) = &item.triton else { continue };
            let (_, times) = shared
                .entry((item.problem_id.clone(), item.method))
                .or_insert_with(|| (described(&item.problem), Vec::new()));
            times.push((triton.us, one.name.clone()));
        }
    }
    let sentences = shared.into_values().filter_map(|(what, mut times)| {
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ((best, fastest), (us, next)) = (times.first()?, times.get(1)?);
        let factor = format::factor(us / best);
        Some(view! {
            <p class="verdict">
                <strong>{format!("{fastest} is {factor} as fast as {next}")}</strong>
                {format!(" with the best Triton config of {what}.")}
            </p>
        })
    });
    sentences.collect_view()
}

/// Words for a problem, without its size: `addmm bfloat16, B in columns`.
fn described(problem: &Problem) -> String {
    let words = [format!("{} {}", problem.op, problem.a_dtype)].into_iter().chain(problem.particulars());
    words.collect::<Vec<_>>().join(", ")
}

/// The cell of the hardware. On phones it also says how the times are known.
fn hardware_cell(name: &str, slug: &str, known: &str) -> AnyView {
    view! {
        <td>
            <a href=format!("/hardware/{slug}")>{format::gpu(name).to_owned()}</a>
            <small class="tight hint">{known.to_owned()}</small>
        </td>
    }
    .into_any()
}

fn measured(item: &NearestProblem, one: &ShapeOnHardware) -> impl IntoView + use<> {
    let href = problem_page(&item.problem_id, &one.hardware, item.method);
    let (triton, library) = (item.triton.as_ref(), item.library.as_ref());
    let what = match one.exact {
        true => format!("measured, {}", format::kind(&item.problem)),
        false => format!("nearest: {}, {}", item.problem.dims(), format::kind(&item.problem)),
    };
    view! {
        <tr>
            {hardware_cell(&one.name, one.hardware.as_str(), &what)}
            <td class="wrap roomy"><a href=href>{what}</a></td>
            <td class="mono">{format::or_dash(triton.map(|triton| format::config(&triton.config, &item.problem)))}</td>
            <td class="num">{format::or_dash(triton.map(|triton| format::time(triton.us)))}</td>
            <td class="num">{format::or_dash(library.map(|library| format::time(library.us)))}</td>
            <RatioCell ratio=item.triton_over_library />
        </tr>
    }
}

/// The row of a hardware on which the problem was not measured, by its model.
#[component]
fn Predicted(model: String, name: String, slug: String, problem: Problem, tf32: bool) -> impl IntoView {
    let mut query = shape_of(&problem).to_vec();
    query.extend(tf32.then(|| ("tf32", "1".to_owned())));
    query.push(("hardware", slug.clone()));
    let href = link("/predict", query);
    let file = remote_model(move || Some(model.clone()));
    let cells = move || match file.get() {
        Load::Waiting => view! { <td></td><td></td><td></td><td></td> }.into_any(),
        Load::Failed(why) => view! { <td class="dim wrap" colspan="4">{why.to_string()}</td> }.into_any(),
        Load::Ready(file) => match Ranker::new(&*file.model)
            .answer(&problem, &Question { picks: 2, tf32, ..Question::default() })
        {
            Err(why) => view! { <td class="dim wrap" colspan="4">{why.to_string()}</td> }.into_any(),
            Ok(answer) => {
                let triton = answer.triton();
                view! {
                    <td class="mono">{format::or_dash(triton.map(|pick| format::config(&pick.config, &problem)))}</td>
                    <td class="num">{format::or_dash(triton.map(|pick| format::time(pick.total().0)))}</td>
                    <td class="num">{format::or_dash(answer.library.map(|library| format::time(library.total().0)))}</td>
                    <RatioCell ratio=answer.triton_over_library() />
                }
                .into_any()
            }
        },
    };
    view! {
        <tr>
            {hardware_cell(&name, &slug, "predicted")}
            <td class="wrap roomy"><a href=href>"predicted"</a></td>
            {cells}
        </tr>
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diode_core::Tile;

    fn said(triton: Option<f64>, library: Option<f64>, near: Option<&[f64]>) -> String {
        let hardware = find("H200").unwrap();
        let config = Config::Mm(Tile::new(128, 256, 64, 4, 8));
        let (triton, ratio) =
            (triton.map(|us| (config, us)), triton.zip(library).map(|(triton, library)| library / triton));
        let origin = near.map_or(Origin::Measured, |near| Origin::Predicted(near.to_vec()));
        let best = Best {
            hardware: hardware.name,
            library: format::library(hardware.vendor).to_owned(),
            triton,
            library_us: library,
            ratio,
            origin,
        };
        best.sentence().replace('\u{a0}', " ")
    }

    #[test]
    fn the_answer_is_a_sentence() {
        assert_eq!(
            said(Some(101.9), Some(94.4), Some(&[0.98, 0.92, 0.95])),
            "On H200, cuBLAS (94.4 µs) beats the best Triton config (102 µs) by 7.9 %, predicted; measured neighbours: 2–9 %."
        );
        assert_eq!(
            said(Some(63.6), Some(67.8), None),
            "On H200, the best Triton config (63.6 µs) beats cuBLAS (67.8 µs) by 6.6 %, measured."
        );
        assert_eq!(
            said(Some(100.0), Some(95.0), Some(&[0.908, 1.07])),
            "On H200, cuBLAS (95.0 µs) beats the best Triton config (100 µs) by 5.3 %, predicted; on measured neighbours Triton is \
             between 10 % slower and 7.0 % faster."
        );
        let tie = "On H200, the best Triton config (99.9 µs) and cuBLAS (100 µs) are equally fast to 1 %, measured.";
        assert_eq!(said(Some(99.9), Some(100.0), None), tie);
        let far =
            "On H200, the best Triton config (10.0 µs) is 3.00× as fast as cuBLAS (30.0 µs), predicted.";
        assert_eq!(said(Some(10.0), Some(30.0), Some(&[])), far);
        assert_eq!(said(Some(10.0), None, None), "On H200, the best Triton config takes 10.0 µs, measured.");
        assert_eq!(
            said(None, Some(10.0), None),
            "On H200, cuBLAS takes 10.0 µs, and no Triton config has a time, measured."
        );
    }

    #[test]
    fn configs_are_in_words() {
        assert_eq!(in_words(&Config::Mm(Tile::new(128, 256, 64, 4, 8))), "128×256×64, 4 stages, 8 warps");
        assert_eq!(in_words(&Config::Mm(Tile::new(16, 32, 64, 1, 4))), "16×32×64, 1 stage, 4 warps");
        assert_eq!(in_words(&Config::DecomposeK { k_split: 4 }), "split-K 4");
    }
}
