//! The predictions of other models for the same shape: models of the same hardware, and published models of
//! other hardware.

use std::sync::Arc;

use diode_api::{ModelState, ModelSummary};
use diode_core::Problem;
use diode_core::hardware::fits;
use diode_model::{Model, Ranker};
use diode_ranking::shortlist;
use leptos::prelude::*;

use super::super::fields::Fields;
use crate::components::Explained;
use crate::format;
use crate::models;
use crate::remote::Load;

/// Each model is a file to download, so only this many are shown.
const MOST: usize = 12;

#[component]
pub(super) fn OtherModels(
    fields: Fields,
    summary: ModelSummary,
    models: Arc<Vec<ModelSummary>>,
    is_open: RwSignal<bool>,
) -> impl IntoView {
    let mut shown: Vec<ModelSummary> = models
        .iter()
        .filter(|model| model.hardware == summary.hardware || model.state == ModelState::Published)
        .cloned()
        .collect();
    // The page's own model comes first, then the others of the same hardware, in the server's order.
    shown.sort_by_key(|model| (model.id != summary.id, model.hardware != summary.hardware));
    shown.truncate(MOST);
    (shown.len() > 1).then(|| {
        let problem = Memo::new(move |_| fields.problem().ok().filter(|_| is_open.get()));
        let tf32 = Signal::derive(move || !fields.tf32.with(String::is_empty));
        let rows = shown.into_iter().map(|model| view! { <OneModel model problem tf32 /> }).collect_view();
        view! {
            <section class="section" aria-label="Models side by side" data-testid="side-by-side-models">
                <h3>"Models side by side"</h3>
                <div class="table-box" tabindex="0">
                    <table>
                        <thead>
                            <tr>
                                <th>"Model"</th>
                                <th class="roomy">"State"</th>
                                <th>"First Triton pick"</th>
                                <th class="num">"Predicted"</th>
                                <th class="num"><Explained text="Library" why="Predicted time of the library" /></th>
                            </tr>
                        </thead>
                        <tbody>{rows}</tbody>
                    </table>
                </div>
            </section>
        }
    })
}

#[component]
fn OneModel(model: ModelSummary, problem: Memo<Option<Problem>>, tf32: Signal<bool>) -> impl IntoView {
    let id = model.id.to_string();
    let file = {
        let id = id.clone();
        models::model(move || Some(id.clone()))
    };
    // The ranker is kept between keys, so that only the parts that depend on the shape are computed again.
    let ranker = StoredValue::new(None::<Ranker<Arc<Model>>>);
    let said = move || match (file.get(), problem.get()) {
        (Load::Waiting, _) | (_, None) => Ok(Default::default()),
        (Load::Failed(failure), _) => Err(failure.to_string()),
        (Load::Ready(file), Some(problem)) => {
            let tf32 = tf32.get();
            let predict = |kept: &mut Option<Ranker<Arc<Model>>>| {
                let ranker = kept.get_or_insert_with(|| Ranker::new(Arc::clone(&file.model)));
                predicted(&file, ranker, &problem, tf32)
            };
            ranker.try_update_value(predict).unwrap_or_else(|| Ok(Default::default()))
        }
    };
    let cells = move || match said() {
        Ok(cells) => {
            let [config, time, library] = cells;
            view! {
                <td class="mono">{config}</td>
                <td class="num">{time}</td>
                <td class="num">{library}</td>
            }
            .into_any()
        }
        Err(why) => view! { <td class="dim wrap" colspan="3">{why}</td> }.into_any(),
    };
    view! {
        <tr data-model=id.clone()>
            <td class="wrap narrow"><a href=format!("/models/{id}")>{model.hardware.to_string()}", "{format::day(&model.created_at)}</a></td>
            <td class="roomy">{model.state.to_string()}</td>
            {cells}
        </tr>
    }
}

/// The first Triton pick, its predicted time and the library's.
fn predicted(
    model: &Model,
    ranker: &mut Ranker<Arc<Model>>,
    problem: &Problem,
    tf32: bool,
) -> Result<[String; 3], String> {
    fits(&model.metadata().hardware, problem).map_err(|error| error.to_string())?;
    let ranked = shortlist(model, ranker, problem, tf32).map_err(|error| error.to_string())?;
    let (config, time) =
        ranked.configs.first().map(|(config, time)| (config.label(), format::time(time.0))).unzip();
    Ok([
        format::or_dash(config),
        format::or_dash(time),
        format::or_dash(ranked.library.map(|time| format::time(time.0))),
    ])
}
