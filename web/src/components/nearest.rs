//! The measured problems nearest to a shape, with their times.

use std::sync::Arc;
use std::time::Duration;

use diode_api::NearestProblem;
use diode_core::hardware::{Hardware, fits};
use diode_core::{Problem, Scaling};
use leptos::leptos_dom::helpers::TimeoutHandle;
use leptos::prelude::*;

use crate::components::figures::RatioCell;
use crate::components::loaded::{Loaded, empty};
use crate::components::measure::MeasureThis;
use crate::components::table::{head, num, table};
use crate::format;
use crate::query::{link, problem_page};
use crate::remote::{Remote, remote};

/// The path of the API that gives the measured problems nearest to a problem.
pub(crate) fn nearest_path(hardware: &str, problem: &Problem, limit: u32) -> String {
    let mut parameters = shape_parameters(problem);
    parameters.push(("limit", limit.to_string()));
    link(&format!("/hardware/{hardware}/nearest"), parameters)
}

/// A shape as parameters of the API.
pub(crate) fn shape_parameters(problem: &Problem) -> Vec<(&'static str, String)> {
    let p = problem;
    let groups = p.groups.into_iter().flat_map(|groups| {
        let counts = [("groups", groups.count.to_string()), ("top_k", groups.top_k.to_string())];
        counts.into_iter().chain(groups.stage.map(|stage| ("stage", stage.to_string())))
    });
    let scaling = (p.scaling != Scaling::None).then(|| ("scaling", p.scaling.to_string()));
    let shape = [
        ("op", p.op.to_string()),
        ("b", p.b.to_string()),
        ("m", p.m.to_string()),
        ("n", p.n.to_string()),
        ("k", p.k.to_string()),
        ("dtype", p.a_dtype.to_string()),
        ("a_layout", p.a_layout.to_string()),
        ("b_layout", p.b_layout.to_string()),
    ];
    shape.into_iter().chain(scaling).chain(groups).collect()
}

/// The measured problems nearest to a problem that may change, on a hardware that may change.
#[derive(Clone, Copy)]
pub(crate) struct Nearest {
    wanted: Memo<Option<(Hardware, Problem)>>,
    /// What is asked for: `wanted`, once the reader has stopped typing.
    settled: RwSignal<Option<(Hardware, Problem)>>,
    found: Remote<Vec<NearestProblem>>,
}

impl Nearest {
    /// The number of problems.
    const SHOWN: u32 = 5;

    pub(crate) fn to(wanted: impl Fn() -> Option<(Hardware, Problem)> + Send + Sync + 'static) -> Self {
        let wanted = Memo::new(move |_| wanted());
        let settled = debounced(wanted);
        let path = move |(hardware, problem): &(Hardware, Problem)| {
            nearest_path(hardware.slug.as_str(), problem, Self::SHOWN)
        };
        let found = remote::<Vec<NearestProblem>>(move || settled.with(|asked| asked.as_ref().map(path)));
        Self { wanted, settled, found }
    }

    /// The problem that was asked for last.
    pub(crate) fn problem(self) -> Option<Problem> {
        self.settled.with(|asked| asked.as_ref().map(|(_, problem)| problem.clone()))
    }

    /// The problems nearest to this one, once they are known. Tracked: the caller runs again after a change.
    pub(crate) fn of(self, problem: &Problem) -> Option<Arc<Vec<NearestProblem>>> {
        let is_own = self.settled.with(|asked| asked.as_ref().is_some_and(|(_, asked)| asked == problem));
        (is_own && !self.found.busy()).then(|| self.found.value())?
    }
}

/// A table of the measured problems nearest to a shape.
#[component]
pub(crate) fn NearestProblems(nearest: Nearest) -> impl IntoView {
    let Nearest { wanted, settled, found } = nearest;
    let too_large = Signal::derive(move || {
        settled.with(|asked| asked.as_ref().and_then(|(hardware, problem)| fits(hardware, problem).err()))
    });
    let otherwise = Signal::derive(move || {
        let (found, wanted) = (found.value()?, settled.get()?.1);
        let other =
            found.iter().map(|near| &near.problem).find(|problem| has_same_sizes(problem, &wanted))?;
        Some(format::kind(other))
    });
    let table = move |found: Arc<Vec<NearestProblem>>| {
        settled.get_untracked().map(|(hardware, _)| rows(&found, &hardware))
    };
    let to_measure =
        Signal::derive(move || settled.get().map(|(hardware, problem)| (hardware.slug.to_string(), problem)));
    view! {
        <section
            class="section"
            class:busy=move || wanted.get() != settled.get() || found.busy()
            class:hidden=move || settled.with(Option::is_none)
            aria-label="Nearest measured problems"
            data-testid="nearest"
        >
            <h2>"Nearest measured problems"</h2>
            <MeasureThis wanted=to_measure current=Signal::derive(move || wanted.get() == settled.get()) too_large otherwise />
            <Loaded remote=found height="13rem" children=table />
        </section>
    }
}

fn rows(found: &[NearestProblem], hardware: &Hardware) -> AnyView {
    if found.is_empty() {
        return empty(
            "No similar problem was measured",
            "No problem of this op and type was measured on this hardware.",
        );
    }
    let (slug, library) = (hardware.slug.as_str(), format::library(hardware.vendor));
    table([
        head("M×N×K"),
        head("Kind").why(format::KIND).roomy(),
        head("Best Triton config"),
        num("Triton"),
        num(library),
        num(format!("Triton vs {library}")),
    ])
    .rows(found.iter().map(|near| row(near, slug)).collect_view())
}

/// Whether a problem has the sizes of another, but not its op, layouts or bias.
fn has_same_sizes(problem: &Problem, wanted: &Problem) -> bool {
    let sizes = |p: &Problem| [p.b, p.m, p.n, p.k];
    sizes(problem) == sizes(wanted) && problem != wanted
}

/// Whether the shape itself was measured.
fn is_same(near: &NearestProblem) -> bool {
    near.distance == 0.0
}

fn row(near: &NearestProblem, hardware: &str) -> impl IntoView + use<> {
    let href = problem_page(&near.problem_id, hardware, near.method);
    let (is_it, kind) = (is_same(near), format::kind(&near.problem));
    let (triton, library) = (near.triton.as_ref(), near.library.as_ref());
    view! {
        <tr class:is-best=is_it>
            <td>
                <a href=href>{near.problem.dims()}</a>{is_it.then(|| view! { <span class="own">" this one"</span> })}
                <small class="tight hint">{kind.clone()}</small>
            </td>
            <td class="roomy">{kind}</td>
            <td class="mono">{format::or_dash(triton.map(|triton| format::config(&triton.config, &near.problem)))}</td>
            <td class="num">{format::or_dash(triton.map(|triton| format::time(triton.us)))}</td>
            <td class="num">{format::or_dash(library.map(|library| format::time(library.us)))}</td>
            <RatioCell ratio=near.triton_over_library />
        </tr>
    }
}

/// The time after the last change until the server is asked, so that no request is sent while the reader
/// types.
const SETTLED: Duration = Duration::from_millis(800);

/// Follows `wanted` with a delay. A change from or to `None` has no delay.
fn debounced<T: Clone + PartialEq + Send + Sync + 'static>(wanted: Memo<Option<T>>) -> RwSignal<Option<T>> {
    let debounced = RwSignal::new(wanted.get_untracked());
    let pending = StoredValue::new(None::<TimeoutHandle>);
    let cancel = move || {
        if let Some(Some(handle)) = pending.try_update_value(Option::take) {
            handle.clear();
        }
    };
    on_cleanup(cancel);
    Effect::new(move |_| {
        let wanted = wanted.get();
        cancel();
        if debounced.with_untracked(Option::is_none) || wanted.is_none() {
            debounced.set(wanted);
            return;
        }
        let follow = move || {
            debounced.try_set(wanted.clone());
        };
        pending.set_value(set_timeout_with_handle(follow, SETTLED).ok());
    });
    debounced
}
