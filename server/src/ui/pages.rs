//! Which pages the dashboard has, and whether the subject of a page exists.

use std::time::Duration;

use diode_api::ModelSummary;
use diode_core::Problem;
use diode_core::hardware::Hardware;
use percent_encoding::percent_decode_str;

use crate::app::App;
use crate::http::Lookup;

/// How long a page waits to learn whether its subject exists. A slow or failing database must not make a page
/// slow or fail.
const PATIENCE: Duration = Duration::from_millis(250);

/// Whether the dashboard has a page at a path, as in its router (`web/src/app.rs`), and the page's subject
/// exists. If the database does not answer in time, the subject counts as existing.
pub(super) async fn exists(app: &App, path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match parts[..] {
        [] | ["models" | "datasets" | "predict" | "compare" | "contribute"] | ["predict", "list"] => true,
        ["hardware" | "datasets", slug] => is_there::<Hardware>(app, slug).await,
        ["problems", id] => is_there::<Problem>(app, id).await,
        ["models", id] => is_there::<ModelSummary>(app, id).await,
        _ => false,
    }
}

async fn is_there<T: Lookup>(app: &App, id: &str) -> bool {
    // An id that cannot be parsed counts as an id that does not exist.
    let Ok(Ok(id)) = percent_decode_str(id).decode_utf8().map(|id| id.parse::<T::Id>()) else { return false };
    match tokio::time::timeout(PATIENCE, T::find(app.backend.store.as_ref(), &id)).await {
        Ok(Ok(found)) => found.is_some(),
        Ok(Err(_)) | Err(_) => true,
    }
}
