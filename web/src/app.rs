//! The router, with the path of every page.

use leptos::prelude::*;
use leptos::wasm_split::{SplitLoaderError, wasm_split};
use leptos_router::components::{Route, Router, Routes};
use leptos_router::{Lazy, LazyRoute, path};

use crate::components::{Deferred, FollowPage, Footer, Header};
use crate::pages::{
    About, ComparePage, ContributePage, DatasetPage, DatasetsPage, HardwarePage, HomePage, ListPage,
    ModelPage, ModelsPage, NotFoundPage, PredictPage, ProblemPage, UploadPage, WorkloadPage, WorkloadsPage,
    further_view,
};

#[component]
pub(crate) fn App() -> impl IntoView {
    view! {
        <Router>
            <FollowPage />
            // Parts of the page are made one after the other. Code is compiled when it first runs, and on a slow computer this
            // takes long.
            <Deferred><Header /></Deferred>
            <Deferred>
                <Routes fallback=NotFoundPage>
                    <Route path=path!("/") view=HomePage />
                    <Route path=path!("/hardware/:slug") view={Lazy::<HardwareRoute>::new()} />
                    <Route path=path!("/problems/:id") view={Lazy::<ProblemRoute>::new()} />
                    <Route path=path!("/models") view={Lazy::<ModelsRoute>::new()} />
                    <Route path=path!("/models/:id") view={Lazy::<ModelRoute>::new()} />
                    <Route path=path!("/datasets") view={Lazy::<DatasetsRoute>::new()} />
                    <Route path=path!("/datasets/:slug") view={Lazy::<DatasetRoute>::new()} />
                    <Route path=path!("/predict") view={Lazy::<PredictRoute>::new()} />
                    <Route path=path!("/predict/list") view={Lazy::<ListRoute>::new()} />
                    <Route path=path!("/compare") view={Lazy::<CompareRoute>::new()} />
                    <Route path=path!("/workloads") view={Lazy::<WorkloadsRoute>::new()} />
                    <Route path=path!("/workloads/:model") view={Lazy::<WorkloadRoute>::new()} />
                    <Route path=path!("/contribute") view={Lazy::<ContributeRoute>::new()} />
                    <Route path=path!("/uploads/:id") view={Lazy::<UploadRoute>::new()} />
                </Routes>
                // The footer comes after the first parts of the page, because these would push it down.
                <Deferred><Deferred><Footer /></Deferred></Deferred>
            </Deferred>
        </Router>
    }
}

/// A later piece of the program could not be fetched. All pages but the overview are in later pieces, and a piece is
/// fetched when the first of its pages is opened, so that a first visit downloads less.
pub(crate) struct NotFetched;

impl From<SplitLoaderError> for NotFetched {
    fn from(_: SplitLoaderError) -> Self {
        Self
    }
}

macro_rules! lazy_pages {
    ($($piece:ident: $route:ident, $function:ident => $page:ident;)*) => {$(
        #[doc = concat!("The route of `", stringify!($page), "`.")]
        pub(crate) struct $route;

        impl LazyRoute for $route {
            fn data() -> Self {
                Self
            }

            async fn view(_: Self) -> AnyView {
                $function().await.unwrap_or_else(|NotFetched| not_fetched())
            }
        }

        #[wasm_split($piece, wasm_split_path = ::leptos::wasm_split, fallible)]
        fn $function() -> Result<AnyView, NotFetched> {
            Ok(view! { <$page /> }.into_any())
        }
    )*};
}

lazy_pages! {
    predict: PredictRoute, predict => PredictPage;
    boards: HardwareRoute, hardware => HardwarePage;
    boards: ProblemRoute, problem => ProblemPage;
    tools: ListRoute, list => ListPage;
    pages: ModelsRoute, models => ModelsPage;
    pages: ModelRoute, model => ModelPage;
    pages: DatasetsRoute, datasets => DatasetsPage;
    pages: DatasetRoute, dataset => DatasetPage;
    pages: CompareRoute, compare => ComparePage;
    tools: WorkloadsRoute, workloads => WorkloadsPage;
    tools: WorkloadRoute, workload => WorkloadPage;
    tools: ContributeRoute, contribute => ContributePage;
    tools: UploadRoute, upload => UploadPage;
}

/// The further parts of Predict, below the answer. The call is in the piece of Predict, the view in that of the other pages.
#[wasm_split(pages, wasm_split_path = ::leptos::wasm_split, fallible)]
pub(crate) fn further(about: About) -> Result<AnyView, NotFetched> {
    Ok(further_view(about))
}

/// Shown instead of a page that could not be fetched. The button loads everything again, perhaps in a newer version.
fn not_fetched() -> AnyView {
    let again = |_| {
        // If the browser cannot load the page again, nothing happens.
        let _ = window().location().reload();
    };
    view! {
        <main class="page">
            <div class="failure" role="alert">
                <strong>"This page could not be fetched"</strong>
                <p>"The server could not be reached, or has a newer version of the dashboard."</p>
                <button type="button" class="button small" on:click=again>"Load it again"</button>
            </div>
        </main>
    }
    .into_any()
}
