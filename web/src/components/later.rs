//! Parts of a page that are made one after the other, so that the page can answer in between.

use leptos::prelude::*;

use super::loaded::Skeleton;
use crate::history::went_back;
use crate::turns::put_off;

/// Makes its children in a later turn than the elements before it.
#[component]
pub(crate) fn Later(
    /// The height of the placeholder until that turn. Leave it out if nothing stands below, so that no
    /// placeholder is needed.
    #[prop(optional)]
    height: Option<&'static str>,
    children: ChildrenFn,
) -> impl IntoView {
    let is_due = due();
    move || match (is_due.get(), height) {
        (true, _) => Some(children().into_any()),
        (false, Some(height)) => Some(view! { <Skeleton height /> }.into_any()),
        (false, None) => None,
    }
}

/// Becomes true in a later turn. It is true at once if the reader went back: the page must have its old
/// height to scroll to the old place.
pub(crate) fn due() -> RwSignal<bool> {
    let is_due = RwSignal::new(went_back());
    if !is_due.get_untracked() {
        put_off(move || {
            is_due.try_set(true);
        });
    }
    is_due
}
