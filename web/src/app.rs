//! The router: every page and its path. Pages are type-erased here: the compiler
//! would else write the code of each a second time inside the router.

use leptos::prelude::*;
use leptos_router::components::{Route, Router, Routes};
use leptos_router::path;

use crate::components::{footer, header};
use crate::pages;

pub(crate) fn app() -> impl IntoView {
    view! {
        <Router>
            {header()}
            <Routes fallback=pages::not_found>
                <Route path=path!("/") view=|| pages::home().into_any() />
                <Route path=path!("/hardware/:slug") view=|| pages::hardware().into_any() />
                <Route path=path!("/problems/:id") view=|| pages::problem().into_any() />
                <Route path=path!("/models") view=|| pages::models().into_any() />
                <Route path=path!("/models/:id") view=|| pages::model().into_any() />
                <Route path=path!("/predict") view=|| pages::predict().into_any() />
                <Route path=path!("/contribute") view=|| pages::contribute().into_any() />
            </Routes>
            {footer()}
        </Router>
    }
}
