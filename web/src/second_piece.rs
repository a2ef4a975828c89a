//! The pages in the second piece of the dashboard. The piece is fetched when the first of these pages is
//! opened, so the first visit downloads only the overview, Predict and the parts that all pages share.
//!
//! Predict calls `further` here, and `further` shows a view that belongs to Predict: the call is in the first piece, the
//! view in the second. So the two pieces use each other.

use leptos::prelude::*;
use leptos::wasm_split::{SplitLoaderError, wasm_split};
use leptos_router::LazyRoute;

use crate::pages::{
    About, ComparePage, ContributePage, DatasetPage, DatasetsPage, HardwarePage, ListPage, ModelPage,
    ModelsPage, ProblemPage, further_view,
};

/// The second piece could not be fetched.
pub(crate) struct NotFetched;

impl From<SplitLoaderError> for NotFetched {
    fn from(_: SplitLoaderError) -> Self {
        Self
    }
}

macro_rules! later {
    ($($route:ident, $function:ident => $page:ident;)*) => {$(
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

        #[wasm_split(pages, wasm_split_path = ::leptos::wasm_split, fallible)]
        fn $function() -> Result<AnyView, NotFetched> {
            Ok(view! { <$page /> }.into_any())
        }
    )*};
}

later! {
    HardwareRoute, hardware => HardwarePage;
    ProblemRoute, problem => ProblemPage;
    ListRoute, list => ListPage;
    ModelsRoute, models => ModelsPage;
    ModelRoute, model => ModelPage;
    DatasetsRoute, datasets => DatasetsPage;
    DatasetRoute, dataset => DatasetPage;
    CompareRoute, compare => ComparePage;
    ContributeRoute, contribute => ContributePage;
}

/// The further parts of Predict, below the answer.
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
