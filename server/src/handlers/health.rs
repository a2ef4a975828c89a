use axum::extract::State;

use crate::app::App;
use crate::http::ApiResult;

/// The process is alive.
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// The process can do its work: database and blobs can be written to.
pub(crate) async fn readyz(State(app): State<App>) -> ApiResult<&'static str> {
    app.readiness.of(&app.backend).await?;
    Ok("ok\n")
}
