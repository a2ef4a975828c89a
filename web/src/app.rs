//! The router, with the path of every page.

use leptos::prelude::*;
use leptos_router::components::{Route, Router, Routes};
use leptos_router::{Lazy, path};

use crate::components::{FollowPage, Footer, Header, Later};
use crate::pages::{HomePage, NotFoundPage, PredictPage};
use crate::second_piece::{
    CompareRoute, ContributeRoute, DatasetRoute, DatasetsRoute, HardwareRoute, ListRoute, ModelRoute,
    ModelsRoute, ProblemRoute,
};

#[component]
pub(crate) fn App() -> impl IntoView {
    view! {
        <Router>
            <FollowPage />
            // Parts of the page are made in turns. Code is compiled when it first runs, and on a slow computer this
            // takes long.
            <Later><Header /></Later>
            <Later>
                <Routes fallback=NotFoundPage>
                    <Route path=path!("/") view=HomePage />
                    <Route path=path!("/hardware/:slug") view={Lazy::<HardwareRoute>::new()} />
                    <Route path=path!("/problems/:id") view={Lazy::<ProblemRoute>::new()} />
                    <Route path=path!("/models") view={Lazy::<ModelsRoute>::new()} />
                    <Route path=path!("/models/:id") view={Lazy::<ModelRoute>::new()} />
                    <Route path=path!("/datasets") view={Lazy::<DatasetsRoute>::new()} />
                    <Route path=path!("/datasets/:slug") view={Lazy::<DatasetRoute>::new()} />
                    <Route path=path!("/predict") view=PredictPage />
                    <Route path=path!("/predict/list") view={Lazy::<ListRoute>::new()} />
                    <Route path=path!("/compare") view={Lazy::<CompareRoute>::new()} />
                    <Route path=path!("/contribute") view={Lazy::<ContributeRoute>::new()} />
                </Routes>
                // The footer comes after the first parts of the page, because these would push it down.
                <Later><Later><Footer /></Later></Later>
            </Later>
        </Router>
    }
}
