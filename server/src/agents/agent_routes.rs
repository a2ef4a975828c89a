//! Agents, what they cover, and what people want measured.

use anyhow::anyhow;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use diode_api::query::from_text;
use diode_api::{
    Agent, AgentDetail, Coverage, CoverageMap, CoverageMapQuery, Measuring, MeasuringQuery, Purpose,
    Registration, Wanted,
};
use diode_core::hardware::{Hardware, fits};
use diode_core::ids::{AgentId, HardwareSlug};
use diode_core::{DType, Op};
use serde::Deserialize;

use crate::accounts::{Authorized, Measure, Needed, licence_of};
use crate::agents::plan::{breadth_of, expected_seconds};
use crate::agents::{coverage, map, next};
use crate::app::App;
use crate::http::{ApiFault, ApiResult, FromPath, Lookup, StrictQuery, json_body};
use crate::page_cache::PageKey;
use crate::store::{KnownAgent, NewWork, Now, Store, StoreResult};

/// How many agents a page shows.
const LISTED: u32 = 200;

/// How many leases are enough to show what an agent has done lately.
const LISTED_LEASES: u32 = 20;

impl Lookup for KnownAgent {
    type Id = AgentId;
    const KIND: &'static str = "agent";
    const HINT: &'static str = "/api/v1/agents lists those seen last";

    async fn find(store: &Store, id: &AgentId) -> StoreResult<Option<Self>> {
        store.agent(id).await
    }
}

/// Which agents to list.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct AgentsQuery {
    /// Those of this hardware only
    #[serde(default, deserialize_with = "from_text")]
    #[param(value_type = Option<HardwareSlug>)]
    hardware: Option<HardwareSlug>,
}

/// Makes a device known that measures what the server asks for. The same key of the same account is the same agent.
#[utoipa::path(
    post, path = "/agents", tag = "agents",
    params(("diode-terms" = Option<u32>, Header, description = "Agrees to this version of the terms of contributing")),
    request_body = Registration,
    responses(
        (status = 200, body = Agent),
        (status = 401, description = "Agents of this server need an account"),
        (status = 403, description = "A token without the scope, another site's page, or nobody has agreed to the terms: `terms_not_agreed`"),
        (status = 409, description = "Another version of the terms is in force: `terms_changed`"),
        (status = 422, description = "Simulated, and this server does not accept that"),
    ),
)]
pub(crate) async fn create(
    State(app): State<App>,
    Authorized { account, .. }: Authorized<Measure>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Json<Agent>> {
    let mut registration: Registration = json_body(&headers, body).await?;
    registration.check()?;
    // An agent of hardware that was merged into another measures for the other hardware.
    let slug = &registration.hardware.slug;
    if let Some(known) = app.backend.store.hardware(slug).await?.filter(|known| known.slug != *slug) {
        registration.hardware = known;
    }
    licence_of(&app, &headers, account.as_ref(), Needed::Current).await?;
    app.backend
        .refuse_simulated(&registration.hardware)
        .map_err(|refused| ApiFault::refused(refused.to_string()))?;
    let account = account.map(|account| account.id);
    let owner = account.as_ref().map_or("", |id| id.as_str());
    let id = AgentId::of(format!("{owner} {}", registration.key).as_bytes());
    let store = &app.backend.store;
    store.register_agent(&id, account.as_ref(), &registration, Now::read()).await?;
    let summary = summary(&app, &id).await?;
    app.plans.prepare(store, &KnownAgent { id, put_aside: summary.put_aside.clone(), account, registration });
    Ok(Json(summary))
}

/// The agents, those seen last first.
#[utoipa::path(
    get, path = "/agents", tag = "agents", params(AgentsQuery),
    responses((status = 200, body = Vec<Agent>)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<AgentsQuery>,
) -> ApiResult<Json<Vec<Agent>>> {
    Ok(Json(app.backend.store.agents(query.hardware.as_ref(), LISTED).await?))
}

/// What an agent does, and what it has done lately.
#[utoipa::path(
    get, path = "/agents/{id}", tag = "agents", params(("id" = String, Path)),
    responses((status = 200, body = AgentDetail)),
)]
pub(crate) async fn get(
    State(app): State<App>,
    FromPath(known): FromPath<KnownAgent>,
) -> ApiResult<Json<AgentDetail>> {
    let leases = app.backend.store.leases(&known.id, LISTED_LEASES).await?;
    let agent = summary(&app, &known.id).await?;
    let Registration { ability, node, .. } = known.registration;
    Ok(Json(AgentDetail { agent, ability, node, leases }))
}

/// The summary of an agent that must exist.
async fn summary(app: &App, id: &AgentId) -> ApiResult<Agent> {
    let summary = app.backend.store.agent_summary(id).await?;
    summary.ok_or_else(|| ApiFault::internal(anyhow!("agent {id} vanished")))
}

/// How much of what the plan names has been measured on a hardware.
#[utoipa::path(
    get, path = "/hardware/{slug}/coverage", tag = "agents", params(("slug" = String, Path)),
    responses(
        (status = 200, body = Coverage),
        (status = 304, description = "The client has it already"),
    ),
)]
pub(crate) async fn coverage_of(
    State(app): State<App>,
    FromPath(hardware): FromPath<Hardware>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let (store, slug) = (&app.backend.store, hardware.slug);
    let state = store.hardware_state(&slug).await?;
    let figures = store.work_figures(&slug).await?;
    let question = PageKey::new(slug.clone(), &("coverage", state, figures));
    let make = async {
        let measured = store.measured_problems(&slug).await?;
        Ok(tokio::task::spawn_blocking(move || coverage(slug, &measured, figures)).await?)
    };
    Ok(app.pages.answer(&question, make).await?.reply(&headers))
}

/// Asks agents to measure problems on a hardware, before others of kinds that are known. What is planned or
/// measured already stays as it is. What no device of the hardware can hold is refused, and all that is asked for
/// with it.
#[utoipa::path(
    post, path = "/hardware/{slug}/wanted", tag = "agents", params(("slug" = String, Path)),
    request_body = Wanted,
    responses(
        (status = 202, description = "Agents measure them when they can"),
        (status = 401),
        (status = 403),
    ),
)]
pub(crate) async fn want(
    State(app): State<App>,
    _: Authorized<Measure>,
    FromPath(hardware): FromPath<Hardware>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<StatusCode> {
    let wanted: Wanted = json_body(&headers, body).await?;
    wanted.check()?;
    for problem in &wanted.problems {
        fits(&hardware, problem).map_err(|error| ApiFault::invalid(error.to_string()))?;
    }
    let work: Vec<NewWork> = wanted
        .problems
        .into_iter()
        .map(|problem| {
            let breadth = breadth_of(&problem);
            let seconds = expected_seconds(&hardware, &problem, breadth);
            NewWork { problem, purpose: Purpose::Wanted, breadth, seconds }
        })
        .collect();
    app.backend.store.add_work(&hardware.slug, &work).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Whether problems are measured on a hardware, are to be, or cannot be; in the order in which they are asked about.
#[utoipa::path(
    get, operation_id = "get", path = "/hardware/{slug}/wanted", tag = "agents", params(("slug" = String, Path), MeasuringQuery),
    responses((status = 200, body = Vec<Measuring>)),
)]
pub(crate) async fn measuring(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<MeasuringQuery>,
    FromPath(hardware): FromPath<Hardware>,
) -> ApiResult<Json<Vec<Measuring>>> {
    let problems = query.problems()?;
    Ok(Json(app.backend.store.measuring(&hardware.slug, &problems, Now::read()).await?))
}

/// How many coming problems are listed: enough to see where the plan goes.
const NEXT: u32 = 10;

/// How much of the plan has been measured for one operator and type, by M and N, and what comes next.
#[utoipa::path(
    get, operation_id = "get", path = "/hardware/{slug}/coverage/map", tag = "agents",
    params(("slug" = String, Path), CoverageMapQuery),
    responses(
        (status = 200, body = CoverageMap),
        (status = 304, description = "The client has it already"),
    ),
)]
pub(crate) async fn coverage_map(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<CoverageMapQuery>,
    FromPath(hardware): FromPath<Hardware>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let (op, dtype) = (query.op.unwrap_or(Op::Mm), query.dtype.unwrap_or(DType::BFloat16));
    let store = &app.backend.store;
    let slug = hardware.slug.clone();
    let state = store.hardware_state(&slug).await?;
    let waiting = store.waiting_work(&slug, NEXT).await?;
    let question = PageKey::new(slug.clone(), &("map", state, op, dtype, &waiting, hardware.facts));
    let make = async {
        let measured = store.measured_problems(&slug).await?;
        let count = move || {
            let cells = map(op, dtype, &measured);
            CoverageMap {
                op,
                dtype,
                kinds: cells.iter().map(|cell| cell.kinds).sum(),
                covered: cells.iter().map(|cell| cell.covered).sum(),
                cells,
                next: next(&hardware, waiting, measured, NEXT as usize),
                hardware: hardware.slug,
            }
        };
        Ok(tokio::task::spawn_blocking(count).await?)
    };
    Ok(app.pages.answer(&question, make).await?.reply(&headers))
}
