//! The pages, one module each.

mod contribute;
mod hardware;
mod home;
mod models;
mod not_found;
mod predict;
mod problem;

pub(crate) use contribute::contribute;
pub(crate) use hardware::hardware;
pub(crate) use home::home;
pub(crate) use models::{model, models};
pub(crate) use not_found::not_found;
pub(crate) use predict::predict;
pub(crate) use problem::problem;

use leptos::prelude::*;
use leptos_router::hooks::use_params_map;

/// The numbers of picks that evaluations speak of, in order: as keys of a map
/// they would come sorted as text.
const TOP_K: [&str; 5] = ["1", "3", "5", "8", "16"];

/// Reads a part of the page's path, such as the id in `/problems/:id`.
fn path_part(name: &'static str) -> Memo<String> {
    let map = use_params_map();
    Memo::new(move |_| map.with(|map| map.get(name).unwrap_or_default()))
}
