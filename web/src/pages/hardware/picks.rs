//! What the model's first pick reaches, for each row that is shown.

use std::collections::HashMap;

use diode_api::{LeaderboardRow, MAX_PICKED, Pick, Picks};
use diode_core::ids::ProblemId;
use leptos::prelude::*;
use leptos::task::spawn_local;

use crate::components::Explained;
use crate::query::link;
use crate::{api, format};

/// The picks that have arrived, by problem.
pub(super) type PicksByProblem = RwSignal<HashMap<ProblemId, Pick>>;

/// Fetches the picks for some rows. If no answer comes, their cells stay empty.
pub(super) fn fetch(slug: &str, rows: &[LeaderboardRow], into: PicksByProblem) {
    let Some(first) = rows.first() else { return };
    for chunk in rows.chunks(MAX_PICKED) {
        let problems: Vec<&str> = chunk.iter().map(|row| row.problem_id.as_str()).collect();
        let parameters = [("method", first.method.to_string()), ("problems", problems.join(","))];
        let path = link(&format!("/hardware/{slug}/picks"), parameters);
        spawn_local(async move {
            if let Ok(picks) = api::get::<Picks>(&path).await {
                // The table may have left the page by now.
                into.try_update(|known| {
                    known.extend(picks.items.into_iter().map(|pick| (pick.problem_id.clone(), pick)));
                });
            }
        });
    }
}

/// The cell with the pick for one problem.
pub(super) fn cell(problem: ProblemId, picks: PicksByProblem) -> impl IntoView {
    let pick = Memo::new(move |_| picks.with(|picks| picks.get(&problem).cloned()));
    let shown = move || {
        let Some(Pick { config, share_of_best, .. }) = pick.get() else { return "–".into_any() };
        let text = share_of_best.map_or_else(|| "not timed".to_owned(), format::percent);
        view! { <Explained text why=format!("The model picks {}", config.label()) /> }.into_any()
    };
    view! { <td class="num" data-testid="pick">{shown}</td> }
}
