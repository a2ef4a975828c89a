use axum::Json;
use axum::extract::State;
use diode_api::{Activity, Agent, NewestUpload, Standing, WorkingAgent};

use crate::app::App;
use crate::http::ApiResult;
use crate::store::{AGENT_LEASE, Now, UploadFilter};

/// How many entries each list has: few, because the list shares its page with other things.
const UPLOADS: u32 = 6;
const AGENTS: u32 = 6;

/// The newest contributions, and the agents that are at work.
#[utoipa::path(get, path = "/activity", tag = "hardware", responses((status = 200, body = Activity)))]
pub(crate) async fn get(State(app): State<App>) -> ApiResult<Json<Activity>> {
    let store = &app.backend.store;
    let counting = UploadFilter { contributor: None, standing: Some(Standing::Counts) };
    let uploads = store.uploads(&counting, UPLOADS).await?;
    let since = Now(Now::read().0 - AGENT_LEASE);
    let is_there = |agent: &Agent| agent.seen_at.parse().is_ok_and(|seen: jiff::Timestamp| seen >= since.0);
    let working = store.agents_seen(since).await?;
    let mut agents = store.agents(None, AGENTS).await?;
    agents.retain(is_there);
    Ok(Json(Activity {
        uploads: uploads.into_iter().map(NewestUpload::from).collect(),
        working,
        agents: agents.into_iter().map(WorkingAgent::from).collect(),
    }))
}
