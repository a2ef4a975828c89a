//! The pages, one module each.

mod compare;
mod contribute;
mod datasets;
mod hardware;
mod home;
mod list;
mod models;
mod not_found;
mod predict;
mod problem;

pub(crate) use compare::ComparePage;
pub(crate) use contribute::ContributePage;
pub(crate) use datasets::{DatasetPage, DatasetsPage};
pub(crate) use hardware::HardwarePage;
pub(crate) use home::HomePage;
pub(crate) use list::ListPage;
pub(crate) use models::{ModelPage, ModelsPage};
pub(crate) use not_found::NotFoundPage;
pub(crate) use predict::{About, PredictPage, further_view};
pub(crate) use problem::ProblemPage;

use leptos::prelude::*;
use leptos_router::hooks::use_params_map;

/// The numbers of picks in an evaluation, in order. The evaluation's map sorts them as text.
const TOP_K: [&str; 5] = ["1", "3", "5", "8", "16"];

/// Reads a part of the page's path, such as the id in `/problems/:id`.
fn path_part(name: &'static str) -> Memo<String> {
    let map = use_params_map();
    Memo::new(move |_| map.with(|map| map.get(name).unwrap_or_default()))
}
