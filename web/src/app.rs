//! The router: every page and its path.

use leptos::prelude::*;
use leptos_router::components::{Route, Router, Routes};
use leptos_router::path;

use crate::components::{Footer, Header};
use crate::pages::{
    ContributePage, HardwarePage, HomePage, ModelPage, ModelsPage, NotFoundPage, PredictPage, ProblemPage,
};

#[component]
pub(crate) fn App() -> impl IntoView {
    view! {
        <Router>
            <Header />
            <Routes fallback=NotFoundPage>
                <Route path=path!("/") view=HomePage />
                <Route path=path!("/hardware/:slug") view=HardwarePage />
                <Route path=path!("/problems/:id") view=ProblemPage />
                <Route path=path!("/models") view=ModelsPage />
                <Route path=path!("/models/:id") view=ModelPage />
                <Route path=path!("/predict") view=PredictPage />
                <Route path=path!("/contribute") view=ContributePage />
            </Routes>
            <Footer />
        </Router>
    }
}
