//! Two things to compare: the choices, the request, the result in words and columns, and the compared problems. Two types
//! of hardware are the first such pair.

use std::sync::Arc;

use diode_api::{ComparedProblem, HardwareSummary, Kernels, RatioBin, Ratios};
use diode_core::{Layout, Method, Op, Scaling};
use leptos::prelude::*;
use leptos_router::hooks::use_query_map;

use crate::charts::{Column, Columns};
use crate::components::{Choice, Loaded, RatioCell, Select, empty, head, named, num, table};
use crate::format;
use crate::pages::hardware::{Filter, Filtered, KernelSwitch, Ranges, any_fault, any_of};
use crate::pages::predict::{DTYPES, NARROW};
use crate::query::{History, link, parameter_or, use_set_parameters};
use crate::remote::remote;

/// The parameters that the address and the API share, besides `a` and `b`.
const KEYS: [&str; 15] = [
    "kernels", "noise", "order", "limit", "op", "dtype", "scaling", "b_layout", "method", "min_m", "max_m",
    "min_n", "max_n", "min_k", "max_k",
];

#[component]
pub(super) fn HardwarePair() -> impl IntoView {
    let all = remote::<Vec<HardwareSummary>>(|| Some("/hardware".to_owned()));
    view! { <Loaded remote=all height="40rem" children=move |all| view! { <Hardware all /> } /> }
}

#[component]
fn Hardware(all: Arc<Vec<HardwareSummary>>) -> impl IntoView {
    let mut measured: Vec<&HardwareSummary> = all.iter().filter(|one| one.timings > 0).collect();
    measured.sort_by_key(|one| std::cmp::Reverse(one.problems));
    let usual: Vec<String> = measured.iter().map(|one| one.hardware.slug.to_string()).collect();
    // The hardware with the most problems is `b`: the other is compared with it.
    let [Some(usual_a), Some(usual_b)] = [1, 0].map(|place| usual.get(place).cloned()) else {
        return empty(
            "Two kinds of hardware are needed",
            view! { "Fewer were measured here. " <a href="/contribute">"Contribute measurements"</a> " of another." },
        );
    };
    let choices: Vec<Choice> =
        measured.iter().map(|one| (one.hardware.slug.to_string(), one.hardware.name.clone())).collect();
    let names = choices.clone();
    let (a, b, fields) = chosen_pair("Hardware", choices, [usual_a, usual_b]);
    let name = Callback::new(move |slug: String| {
        names.iter().find(|(own, _)| *own == slug).map_or(slug, |(_, name)| name.clone())
    });
    view! {
        {fields}
        <Compared what="hardware" a b name />
    }
    .into_any()
}

/// The filters, and the server's comparison.
#[component]
pub(super) fn Compared(
    what: &'static str,
    a: Memo<String>,
    b: Memo<String>,
    name: Callback<String, String>,
    /// The kernels whose times the server compares if the address names none.
    #[prop(default = Kernels::Triton)]
    usual_kernels: Kernels,
    /// The hardware of both models, if two models are compared. Picks of models are Triton kernels.
    #[prop(optional)]
    of_models: Option<String>,
) -> impl IntoView {
    let are_models = of_models.is_some();
    let (map, any_fault) = (use_query_map(), any_fault());
    let ratios = remote::<Ratios>(move || {
        let value = |key| match key {
            "kernels" if are_models => String::new(),
            _ => map.with(|map| map.get(key).unwrap_or_default()),
        };
        let given = KEYS.map(|key| (key, value(key)));
        let pair = [("a", a.get()), ("b", b.get())];
        (!any_fault.get()).then(|| link(&format!("/comparisons/{what}"), pair.into_iter().chain(given)))
    });
    let noise = named(&[("1", "1 %"), ("2", "2 %"), ("5", "5 %"), ("10", "10 %")]);
    let order = named(&[("", "slower first"), ("desc", "faster first")]);
    let answer = move |ratios: Arc<Ratios>| {
        let names = [a, b].map(|side| name.run(side.get_untracked()));
        // The name of a library version begins with its hardware.
        let slug = |side: Memo<String>| side.with_untracked(|side| side.split('@').next().map(str::to_owned));
        let slugs = match of_models.clone() {
            Some(hardware) => Some([hardware.clone(), hardware]),
            None => (what != "uploads").then(|| [a, b].map(|side| slug(side).unwrap_or_default())),
        };
        view! {
            <Verdict ratios=Arc::clone(&ratios) names=names.clone() />
            <Rows ratios names slugs />
        }
    };
    view! {
        <section class="section" aria-label="What to compare">
            {(!are_models).then(|| view! { <KernelSwitch usual=usual_kernels /> })}
            <div class="filters">
                <Filter label="Op" key="op" choices=any_of(Op::ALL) />
                <Filter label="Dtype" key="dtype" choices=any_of(&[&DTYPES[..], &NARROW].concat()) />
                <Filter label="Scaling" key="scaling" choices=any_of(Scaling::ALL) />
                <Filter label="Layout of B" key="b_layout" choices=any_of(Layout::ALL) />
                <Ranges />
            </div>
            <div class="filters">
                <Filter label="Counts as the same within" key="noise" choices=noise default="2".to_owned() />
                <Filter label="Order" key="order" choices=order />
            </div>
        </section>
        <section class="section" class:busy=move || ratios.busy() aria-label="Comparison">
            <Filtered remote=ratios height="40rem" children=answer />
        </section>
    }
}

/// Both choices, and the fields to change them. `usual` is what is chosen if the address names nothing.
pub(super) fn chosen_pair(
    label: &'static str,
    choices: Vec<Choice>,
    usual: [String; 2],
) -> (Memo<String>, Memo<String>, AnyView) {
    let [usual_a, usual_b] = usual;
    let (a, b) = (parameter_or("a", usual_a), parameter_or("b", usual_b));
    let set = use_set_parameters();
    let choose = move |key: &'static str| {
        let set = set.clone();
        move |id: String| set(&[(key, id)], History::Push)
    };
    let fields = view! {
        <div class="fields pair">
            <Select label="Compared with" placeholder="Choose one" choices=choices.clone() current=a choose=choose("a") />
            <Select label placeholder="Choose one" choices current=b choose=choose("b") />
        </div>
    };
    (a, b, fields.into_any())
}

#[component]
pub(super) fn Verdict(ratios: Arc<Ratios>, names: [String; 2]) -> impl IntoView {
    let Ratios { problems, only_a, only_b, slower, faster, same, b_over_a, .. } = *ratios;
    let [a, b] = names;
    let rest = format!("{} only on {a}, {} only on {b}.", format::count(only_a), format::count(only_b));
    let Some(ratio) = b_over_a else {
        return empty(
            "No problem that both measured",
            view! { "By one method, and with these filters. " {rest} },
        );
    };
    let compared = slower + faster + same;
    let sample = if compared < problems {
        format!(" An even sample of {} was compared.", format::count(compared))
    } else {
        String::new()
    };
    let detail = format!(
        " Geometric mean over {} that both measured. Faster on {}, slower on {}, the same on {}. {rest}{sample}",
        format::counted(problems, "problem"),
        format::count(faster),
        format::count(slower),
        format::count(same),
    );
    view! {
        <p class="verdict" data-testid="ratio">
            <strong>{format!("{b} runs at {} the speed of {a}.", format::factor(ratio))}</strong>
            <span class="hint">{detail}</span>
        </p>
        <Histogram bins=ratios.histogram.clone() />
    }
    .into_any()
}

#[component]
fn Histogram(bins: Vec<RatioBin>) -> impl IntoView {
    let most = bins.iter().map(|bin| bin.problems).max().unwrap_or(1).max(1);
    let between = |bin: &RatioBin| format!("{} to {}", format::factor(bin.from), format::factor(bin.to));
    let columns = bins.iter().map(|bin| Column {
        share: bin.problems as f64 / most as f64,
        class: if bin.to <= 1.0 { "slower" } else { "" },
        mark: None,
        text: format!("{}: {}", between(bin), format::counted(bin.problems, "problem")),
    });
    let end = |bin: Option<&RatioBin>, value: fn(&RatioBin) -> f64| {
        bin.map_or_else(String::new, |bin| format::factor(value(bin)))
    };
    let ends = [end(bins.first(), |bin| bin.from), end(bins.last(), |bin| bin.to)];
    let rows = bins.iter().map(|bin| {
        view! { <tr><td>{between(bin)}</td><td class="num">{format::count(bin.problems)}</td></tr> }
    });
    view! {
        <Columns
            columns=columns.collect()
            description="Columns: how many problems have which ratio. The table below has the same numbers.".to_owned()
            ends
            top=format::counted(most, "problem")
        />
        {table([head("Speed ratio"), num("Problems")]).below_chart(rows.collect_view())}
    }
}

/// The most rows that the server gives at once.
const MOST: u64 = 500;

#[component]
pub(super) fn Rows(
    ratios: Arc<Ratios>,
    names: [String; 2],
    /// The hardware of both sides, for links to the problems' pages. `None` if the sides are uploads.
    slugs: Option<[String; 2]>,
) -> impl IntoView {
    if ratios.items.is_empty() {
        return ().into_any();
    }
    let set = use_set_parameters();
    let (shown, all) = (ratios.items.len() as u64, ratios.slower + ratios.faster + ratios.same);
    let more = (shown < all.min(MOST)).then(|| {
        let most = all.min(MOST);
        view! {
            <button type="button" class="button small" on:click=move |_| set(&[("limit", MOST.to_string())], History::Push)>
                {format!("Show {}", format::count(most))}
            </button>
        }
    });
    let [a, b] = names;
    let title = format!("Time on {a} / time on {b}: above 1 where {b} is faster");
    let rows = ratios.items.iter().map(|item| row(item, slugs.as_ref(), ratios.method)).collect_view();
    view! {
        {table([
            head("M×N×K"), head("Kind").why(format::KIND).roomy(),
            head(format!("Config, {a}")).roomy(), num(format!("Time, {a}")),
            head(format!("Config, {b}")).roomy(), num(format!("Time, {b}")), num("Speed ratio").why(title),
        ]).testid("compared").boxed("table-box board").rows(rows)}
        <div class="table-foot">
            <span>{format!("{} of {}", format::count(shown), format::counted(all, "problem"))}</span>
            {more}
        </div>
    }
    .into_any()
}

fn row(item: &ComparedProblem, slugs: Option<&[String; 2]>, method: Option<Method>) -> impl IntoView + use<> {
    let path = format!("/problems/{}", item.problem_id);
    let method = method.map(|method| method.to_string()).unwrap_or_default();
    let hardware = slugs.map(|[_, b]| b.clone()).unwrap_or_default();
    let href = link(&path, [("hardware", hardware), ("method", method)]);
    let (p, kind) = (&item.problem, format::kind(&item.problem));
    view! {
        <tr>
            <td><a href=href>{p.dims()}</a><small class="tight hint">{kind.clone()}</small></td>
            <td class="roomy">{kind}</td>
            <td class="mono roomy">{format::config(&item.a.config, p)}</td>
            <td class="num">{format::time(item.a.us)}</td>
            <td class="mono roomy">{format::config(&item.b.config, p)}</td>
            <td class="num">{format::time(item.b.us)}</td>
            <RatioCell ratio=Some(item.b_over_a) />
        </tr>
    }
}
