//! Two things to compare: the choices, the request, the result in words and columns, and the compared problems. Two types
//! of hardware are the first such pair.

use std::sync::Arc;

use diode_api::{ComparedProblem, HardwareSummary, Kernels, RatioBin, RatioGroup, Ratios};
use diode_core::hardware::Vendor;
use diode_core::{Method, Op, Scaling};
use leptos::prelude::*;
use leptos_router::hooks::use_query_map;

use crate::charts::{Column, Columns};
use crate::components::{Choice, Loaded, RatioCell, Select, Snippet, empty, head, named, num, table};
use crate::format;
use crate::pages::hardware::{
    ALIGNMENTS, Filter, Filtered, KernelSwitch, LAYOUTS, Ranges, any_fault, any_of, subject,
};
use crate::pages::predict::{DTYPES, NARROW};
use crate::query::{History, link, parameter_or, server_address, use_set_parameters};
use crate::remote::remote;

/// The parameters that the address and the API share, besides `a` and `b`.
pub(super) const KEYS: [&str; 16] = [
    "kernels", "noise", "order", "limit", "op", "dtype", "scaling", "b_layout", "aligned", "method", "min_m",
    "max_m", "min_n", "max_n", "min_k", "max_k",
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
        names.iter().find(|(own, _)| *own == slug).map_or(slug, |(_, name)| format::gpu(name).to_owned())
    });
    let sheets = move || {
        let of = |side: Memo<String>| {
            let slug = side.get();
            all.iter().find(|one| one.hardware.slug.as_str() == slug)?.hardware.facts
        };
        let (b_slug, a, b) = (b.get(), of(a)?, of(b)?);
        let peaks = a
            .peaks
            .fp16
            .zip(b.peaks.fp16)
            .map(|(a, b)| format!(", its fp16 peak {}", format::factor(b.0 / a.0)));
        Some(format!(
            "By the data sheets, the memory of {} is {} as fast{}.",
            name.run(b_slug),
            format::factor(b.dram_gbps / a.dram_gbps),
            peaks.unwrap_or_default()
        ))
    };
    view! {
        {fields}
        <p class="hint">{sheets}</p>
        <Compared what="hardware" a b name usual_kernels=Kernels::Everything />
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
    let value = move |key| match (key, map.with(|map| map.get(key).unwrap_or_default())) {
        ("kernels", _) if are_models => String::new(),
        ("kernels", given) if given.is_empty() => usual_kernels.to_string(),
        (_, given) => given,
    };
    let ratios = remote::<Ratios>(move || {
        let pair = [("a", a.get()), ("b", b.get())];
        let given = KEYS.map(|key| (key, value(key)));
        (!any_fault.get()).then(|| link(&format!("/comparisons/{what}"), pair.into_iter().chain(given)))
    });
    let answer = move |ratios: Arc<Ratios>| {
        let names = [a, b].map(|side| name.run(side.get_untracked()));
        // The name of a library version begins with its hardware.
        let slug = |side: Memo<String>| side.with_untracked(|side| side.split('@').next().map(str::to_owned));
        let slugs = match of_models.clone() {
            Some(hardware) => Some([hardware.clone(), hardware]),
            None => (what != "uploads").then(|| [a, b].map(|side| slug(side).unwrap_or_default())),
        };
        let library = match slugs.as_ref().map(|[a, _]| a.split('-').next().unwrap_or_default()) {
            Some("nvidia") => format::library(Vendor::Nvidia),
            Some("amd") => format::library(Vendor::Amd),
            _ => "the library",
        };
        let whose = untrack(|| value("kernels")).parse().ok().map(|kernels| match kernels {
            Kernels::Library => library.to_owned(),
            kernels => format!("the {}", subject(kernels, library)),
        });
        // Everything that the comparison depends on, also what neither the reader nor the address has named.
        let method = ratios.method.map(|method| method.to_string()).unwrap_or_default();
        let subject = [("what", what.to_owned()), ("a", a.get_untracked()), ("b", b.get_untracked())];
        let given = untrack(|| KEYS.map(|key| (key, value(key))));
        let here: Vec<_> = subject
            .into_iter()
            .chain(given)
            .map(|(key, value)| match key {
                // Each side names its own where methods are compared.
                "method" if what != "methods" => (key, method.clone()),
                _ => (key, value),
            })
            .collect();
        view! {
            <Verdict ratios=Arc::clone(&ratios) names=names.clone() whose />
            {groups(&ratios, &names, &here)}
            <Rows ratios names slugs />
            <details>
                <summary>"Link to this comparison"</summary>
                <Snippet text=format!("{}{}", server_address(), link("/compare", here)) />
            </details>
        }
    };
    let filters = move || {
        let is_filter = |key: &str| !matches!(key, "kernels" | "noise" | "order" | "limit" | "method");
        let is_set = |key: &str| map.with(|map| map.get(key).is_some_and(|value| !value.is_empty()));
        KEYS.into_iter().filter(|key| is_filter(key) && is_set(key)).count()
    };
    let summary = move || match filters() {
        0 => "Filters".to_owned(),
        set => format!("Filters ({set} set)"),
    };
    let set = use_set_parameters();
    let clear = move |_| set(&KEYS.map(|key| (key, String::new())), History::Push);
    let noise = named(&[("1", "1 %"), ("2", "2 %"), ("5", "5 %"), ("10", "10 %")]);
    let order = named(&[("", "slower first"), ("desc", "faster first")]);
    view! {
        <details open=untrack(filters) != 0>
            <summary>{summary}</summary>
            <div class="section">
                {(!are_models).then(|| view! { <KernelSwitch usual=usual_kernels /> })}
                <div class="filters">
                    <Filter label="Op" key="op" choices=any_of(Op::ALL) />
                    <Filter label="Dtype" key="dtype" choices=any_of(&[&DTYPES[..], &NARROW].concat()) />
                    <Filter label="Scaling" key="scaling" choices=any_of(Scaling::ALL) />
                    <Filter label="Layout of B" key="b_layout" choices=named(&LAYOUTS) />
                    <Filter label="Alignment" key="aligned" choices=named(&ALIGNMENTS) />
                    <Ranges />
                </div>
                <div class="filters">
                    <Filter label="Counts as the same within" key="noise" choices=noise default="2".to_owned() />
                    <Filter label="Order" key="order" choices=order />
                    <button type="button" class="button small" on:click=clear>"Clear filters"</button>
                </div>
            </div>
        </details>
        <section class="section" class:busy=move || ratios.busy() aria-label="Comparison">
            <Filtered remote=ratios height="40rem" children=answer />
        </section>
    }
}

/// The groups of problems, with links that filter by them.
fn groups(ratios: &Ratios, [a, b]: &[String; 2], here: &[(&'static str, String)]) -> Option<AnyView> {
    let row = |group: &RatioGroup| {
        let narrowed = here.iter().map(|(key, own)| {
            let (least, most) =
                (own.parse::<u64>().ok(), group.filter.get(*key).and_then(|size| size.parse().ok()));
            let value = match (*key, group.filter.get(*key)) {
                // A bound of the reader's may be narrower than the band.
                ("min_m", Some(_)) => least.max(most).map(|size| size.to_string()),
                ("max_m", Some(_)) => least.into_iter().chain(most).min().map(|size| size.to_string()),
                (_, given) => given.cloned(),
            };
            (*key, value.unwrap_or_else(|| own.clone()))
        });
        view! {
            <tr>
                <td><a href=link("/compare", narrowed)>{group_name(group)}</a></td>
                <td class="num">{format::count(group.problems)}</td>
                <td class="num roomy">{format::count(group.faster)}</td>
                <td class="num roomy">{format::count(group.slower)}</td>
                <RatioCell ratio=Some(group.b_over_a) />
            </tr>
        }
    };
    (!ratios.groups.is_empty()).then(|| {
        table([
            head("Problems with"),
            num("Problems"),
            num("Faster").roomy(),
            num("Slower").roomy(),
            num(format!("{b} against {a}")).why("Geometric mean of the ratios of their times"),
        ])
        .testid("groups")
        .rows(ratios.groups.iter().map(row).collect_view())
    })
}

fn group_name(group: &RatioGroup) -> String {
    let of = |key: &str| group.filter.get(key).map(String::as_str);
    let text = |choices: &[(&str, &str)], value: &str| {
        choices
            .iter()
            .find(|(own, _)| *own == value)
            .map_or_else(|| value.to_owned(), |(_, text)| (*text).to_owned())
    };
    match (of("op"), of("dtype"), of("b_layout"), of("aligned")) {
        (Some(op), ..) => format!("op {op}"),
        (_, Some(dtype), ..) => format!(
            "type {}",
            dtype.parse().map_or_else(|_| dtype.to_owned(), |dtype| format::short(dtype).to_owned())
        ),
        (_, _, Some(layout), _) => format!("layout {}", text(&LAYOUTS, layout)),
        (.., Some(aligned)) => text(&ALIGNMENTS, aligned),
        _ => match (of("min_m").unwrap_or("1"), of("max_m")) {
            (least, Some(most)) => format!("M from {least} to {most}"),
            (least, None) => format!("M from {least}"),
        },
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
    // The address names both, so that it means the same once there are others.
    let missing = use_query_map().with_untracked(|map| ["a", "b"].iter().any(|key| map.get(key).is_none()));
    let name_both = use_set_parameters();
    Effect::new(move |_| {
        let both = [("a", a.get_untracked()), ("b", b.get_untracked())];
        if missing && both.iter().all(|(_, id)| !id.is_empty()) {
            name_both(&both, History::Replace);
        }
    });
    let fields = view! {
        <div class="fields pair">
            <Select label placeholder="Choose one" choices=choices.clone() current=b choose=choose("b") />
            <Select label="Against" placeholder="Choose one" choices current=a choose=choose("a") />
        </div>
    };
    (a, b, fields.into_any())
}

#[component]
pub(super) fn Verdict(
    ratios: Arc<Ratios>,
    names: [String; 2],
    /// Whose times are compared, unless models are.
    whose: Option<String>,
) -> impl IntoView {
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
    let by = whose.map(|whose| format!(", by the time of {whose} on each problem")).unwrap_or_default();
    let detail = format!(
        " Geometric mean over {} that both measured. Faster on {}, slower on {}, the same on {}. {rest}{sample}",
        format::counted(problems, "problem"),
        format::count(faster),
        format::count(slower),
        format::count(same),
    );
    view! {
        <p class="verdict" data-testid="ratio">
            <strong>{format!("{b} is {} {a}{by}.", than(ratio))}</strong>
            <span class="hint">{detail}</span>
        </p>
        <Histogram bins=ratios.histogram.clone() />
    }
    .into_any()
}

/// How one thing compares with another, given other's time / its time: `3.7 % slower than`.
fn than(ratio: f64) -> String {
    format::gap(ratio).map_or_else(|| "as fast as".to_owned(), |_| format!("{} than", format::against(ratio)))
}

#[component]
fn Histogram(bins: Vec<RatioBin>) -> impl IntoView {
    let most = bins.iter().map(|bin| bin.problems).max().unwrap_or(1).max(1);
    let between = |bin: &RatioBin| format!("{} to {}", format::against(bin.from), format::against(bin.to));
    let columns = bins.iter().map(|bin| Column {
        share: bin.problems as f64 / most as f64,
        class: if bin.to <= 1.0 { "slower" } else { "" },
        mark: None,
        text: format!("{}: {}", between(bin), format::counted(bin.problems, "problem")),
    });
    let end = |bin: Option<&RatioBin>, value: fn(&RatioBin) -> f64| {
        bin.map_or_else(String::new, |bin| format::against(value(bin)))
    };
    let ends = [end(bins.first(), |bin| bin.from), end(bins.last(), |bin| bin.to)];
    let (low, high) =
        (bins.first().map_or(0.0, |bin| bin.from.ln()), bins.last().map_or(0.0, |bin| bin.to.ln()));
    let equal = Some(-low / (high - low)).filter(|_| low < 0.0 && high > 0.0);
    let rows = bins.iter().map(|bin| {
        view! { <tr><td>{between(bin)}</td><td class="num">{format::count(bin.problems)}</td></tr> }
    });
    view! {
        <Columns
            columns=columns.collect()
            description="Columns: how many problems have which ratio. The table below has the same numbers.".to_owned()
            ends
            equal
            top=format::counted(most, "problem")
        />
        {table([head("Difference"), num("Problems")]).below_chart(rows.collect_view())}
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
    let rows = ratios.items.iter().map(|item| row(item, slugs.as_ref(), ratios.method)).collect_view();
    view! {
        {table([
            head("M×N×K"), head("Kind").why(format::KIND).roomy(),
            head(format!("Config, {a}")).roomy(), num(format!("Time, {a}")),
            head(format!("Config, {b}")).roomy(), num(format!("Time, {b}")), num(format!("{b} against {a}")),
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
