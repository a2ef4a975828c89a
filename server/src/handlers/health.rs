use axum::extract::State;

use crate::app::App;
use crate::http::ApiResult;

/// Answers if the process is alive.
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// Answers if the process can do its work: it can write to the database and store blobs.
pub(crate) async fn readyz(State(app): State<App>) -> ApiResult<&'static str> {
    app.readiness.of(&app.backend).await?;
    Ok("ok\n")
}
