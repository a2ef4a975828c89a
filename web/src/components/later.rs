//! Parts of a page that are made one after the other, so that the page answers meanwhile.

use leptos::prelude::*;

use super::loaded::Skeleton;
use crate::history::went_back;
use crate::turns::put_off;

/// Makes its children in a later turn than what stands before it.
#[component]
pub(crate) fn Later(
    /// Until then a quiet block so high stands there; nothing does where nothing stands below it.
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

/// Becomes true in a later turn. Whoever goes back finds a page as high as it was, at once.
pub(crate) fn due() -> RwSignal<bool> {
    let is_due = RwSignal::new(went_back());
    if !is_due.get_untracked() {
        put_off(move || {
            is_due.try_set(true);
        });
    }
    is_due
}
